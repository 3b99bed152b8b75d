"""Philox for a GPU gives the plain one's bits; without a GPU, in Triton's interpreter."""

import zlib

import pytest
import torch

from unweave import streams_gpu
from unweave.streams import Stream

SEEDS = torch.tensor([0, 5, 2**32 - 1, 2**32, 2**40 + 3, 2**63 - 1, -1])
PURPOSES = ["noise", "batch", "init encoder 0.weight", "", "permutation"]
LARGE = 2**32 - 5


def check(device, seeds, purpose, step, items, width):
    """Compare words and uniform numbers with those of the plain version, to the bit."""
    plain = Stream(seeds, purpose, step)
    numbers = torch.arange(items) if isinstance(items, int) else items
    on_device = [
        torch.as_tensor(seeds).to(device),
        numbers.to(device),
        step.to(device) if isinstance(step, torch.Tensor) else step,
        zlib.crc32(purpose.encode()),
        width,
    ]
    words = streams_gpu.draw(*on_device, False).cpu()
    assert torch.equal(words, plain.words(items, width))
    assert words.dtype == torch.int64
    uniform = streams_gpu.draw(*on_device, True).cpu()
    assert torch.equal(uniform, plain.uniform(items, width))
    assert uniform.dtype == torch.float32


@pytest.mark.parametrize("purpose", PURPOSES)
def test_purposes_and_seeds_of_any_size(device, purpose):
    check(device, SEEDS, purpose, 3, 5, 6)


def test_purposes_are_words_of_either_sign():
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
