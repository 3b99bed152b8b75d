"""Philox for a GPU against the reference; without a GPU, in Triton's interpreter."""

import math
import zlib

import pytest
import torch
import triton
import triton.language as tl
from torch.utils._python_dispatch import TorchDispatchMode

from unweave import random as streams
from unweave.kernels import gpu_random as streams_gpu
from unweave.random import Stream

SEEDS = torch.tensor([0, 5, 2**32 - 1, 2**32, 2**40 + 3, 2**63 - 1, -1])
PURPOSES = ["noise", "batch", "init encoder 0.weight", "", "permutation"]
LARGE = 2**32 - 5


def check(device, seeds, purpose, step, items, width):
    """Compare with the plain version: words and uniform numbers to the bit, normal ones nearly."""
    plain = Stream(seeds, purpose, step)
    numbers = torch.arange(items) if isinstance(items, int) else items
    on_device = [
        torch.as_tensor(seeds).to(device),
        numbers.to(device),
        step.to(device) if isinstance(step, torch.Tensor) else step,
        zlib.crc32(purpose.encode()),
        width,
    ]
    words = streams_gpu.draw("words", *on_device).cpu()
    assert torch.equal(words, plain.words(items, width))
    assert words.dtype == torch.int64
    uniform = streams_gpu.draw("uniform", *on_device).cpu()
    assert torch.equal(uniform, plain.uniform(items, width))
    assert uniform.dtype == torch.float32
    normal = streams_gpu.draw("normal", *on_device).cpu()
    torch.testing.assert_close(normal, plain.normal(items, width), rtol=2e-6, atol=1e-6)
    assert normal.dtype == torch.float32


@pytest.mark.parametrize("purpose", PURPOSES)
def test_purposes_and_seeds_of_any_size(device, purpose):
    check(device, SEEDS, purpose, 3, 5, 6)


def test_purposes_may_exceed_int32():
    signs = {zlib.crc32(purpose.encode()) >= 2**31 for purpose in PURPOSES}
    assert signs == {True, False}


@pytest.mark.parametrize("width", [1, 3, 4, 7, 9])
@pytest.mark.parametrize("items", [1, 3, 200])
def test_any_number_of_items_and_numbers(device, width, items):
    check(device, SEEDS[3:6], "noise", 0, items, width)


@pytest.mark.parametrize("step", [0, 1, 1234, 2**31 + 1, LARGE])
def test_a_step_is_a_number_or_a_tensor(device, step):
    check(device, SEEDS[3:5], "batch", step, 2, 5)
    check(device, SEEDS[3:5], "batch", torch.tensor(step), 2, 5)


@pytest.mark.parametrize("seed", [7, 2**40 + 3, torch.tensor(2**33 + 9), SEEDS[:6].view(2, 3)])
def test_seeds_are_one_or_an_array(device, seed):
    check(device, seed, "noise", 2, 3, 5)


def test_items_are_named_by_their_numbers(device):
    items = torch.tensor([[9, 0, LARGE], [2**31, 4, 4]])
    check(device, 7, "noise", 2, items[0], 5)
    check(device, SEEDS[:2], "noise", 2, items[0], 5)
    check(device, SEEDS[:2], "noise", 2, items, 5)
    check(device, SEEDS[:2], "noise", 2, items.T.contiguous().T, 5)
    check(device, SEEDS[:2], "noise", 2, items[:, ::2], 5)
    check(device, SEEDS[:2], "noise", 2, items[:, :1], 5)
    check(device, SEEDS[:6].view(2, 3), "noise", 2, items[:, None], 5)


@pytest.mark.parametrize(
    "seeds", [SEEDS[::2], SEEDS[:1].expand(3)], ids=["every second", "shared"]
)
def test_seeds_may_be_views(device, seeds):
    check(device, seeds, "noise", 2, 3, 5)


@triton.jit
def box_muller(one, other, cosine, sine, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    pair = streams_gpu._normal(tl.load(one + place), tl.load(other + place))
    tl.store(cosine + place, pair[0])
    tl.store(sine + place, pair[1])


def test_box_muller_keeps_its_digits_to_the_ends_of_the_grid(device):
    grid = torch.tensor([0, 1, 2, 3, 2**12 + 1, 2**23, 2**24 - 2, 2**24 - 1]) * 2.0**-24
    one, other = torch.cartesian_prod(grid, grid).T.contiguous().to(device)
    cosine, sine = torch.empty_like(one), torch.empty_like(one)
    box_muller[(1,)](one, other, cosine, sine, len(one))
    radius = (-2 * torch.log1p(-one.cpu().double())).sqrt()
    angle = (2 * math.pi * other.cpu()).double()  # as rounded as everywhere
    for found, expected in ((cosine, radius * angle.cos()), (sine, radius * angle.sin())):
        torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", ["words", "uniform", "normal"])
@pytest.mark.parametrize("items", [4, torch.tensor([7, 2, LARGE])], ids=["a number", "named"])
def test_streams_draw_by_the_kernel_on_a_gpu(device, kind, items, monkeypatch):
    plain = getattr(Stream(SEEDS, "noise", 3), kind)(items, 5)
    asked, draw = [], streams_gpu.draw

    def noted(*arguments):
        asked.append(arguments[0])
        return draw(*arguments)

    monkeypatch.setattr(streams, "fused", lambda x: True)
    monkeypatch.setattr(streams_gpu, "draw", noted)
    there = items.to(device) if isinstance(items, torch.Tensor) else items
    found = getattr(Stream(SEEDS.to(device), "noise", 3), kind)(there, 5).cpu()
    torch.testing.assert_close(found, plain, rtol=2e-6, atol=1e-6)
    assert asked == [kind]


class NothingFromTheHost(TorchDispatchMode):
    """Fails where a tensor is made of Python's numbers, which no CUDA graph can record."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert "lift_fresh" not in str(function)
        return function(*args, **(kwargs or {}))


def test_streams_without_a_step_can_be_recorded(device):
    seeds, items = SEEDS.to(device), torch.arange(3, device=device)
    with NothingFromTheHost():
        streams_gpu.draw("words", seeds, items, 7, 1, 4)
