"""Random sprites made on a GPU are the plain ones; without a GPU, in Triton's interpreter."""

import pytest
import torch

from unweave.data.dataset import Dataset, as_floats
from unweave.data.dsprites_variants import Colored, Noisy, OnPainting
from unweave.data.stores import Bits
from unweave.kernels import gpu_dsprites_variants as dsprites_variants_gpu
from unweave.random import Stream

SEEDS = torch.tensor([5, 2**32, 2**40 + 3, 2**63 - 1, -1])
PLACES = torch.arange(3)
VARIANTS = ["color", "noisy", "scream"]


def picture(height, width):
    return torch.rand(height, width, 3, generator=torch.Generator().manual_seed(1))


def sprites(*shape, grey=False):
    generator = torch.Generator().manual_seed(0)
    if grey:
        return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return torch.randint(0, 2, shape, generator=generator, dtype=torch.uint8) * 255


def on_device(value, device):
    return value.to(device) if isinstance(value, torch.Tensor) else value


def check(device, variant, images, seeds, items=PLACES, step=3, painting=None):
    """Compare with the plain formula, to the bit; what was shown."""
    if variant == "scream":
        painting = picture(90, 80) if painting is None else painting
    plain = {"color": Colored, "noisy": Noisy}.get(variant, lambda: OnPainting(painting))()
    expected = plain(images.cpu(), Stream(seeds, "appearance", step), items)
    stream = Stream(torch.as_tensor(seeds).to(device), "appearance", on_device(step, device))
    batch = images.to(device), stream, items.to(device)
    if variant == "color":
        shown = dsprites_variants_gpu.colored(*batch)
    elif variant == "noisy":
        shown = dsprites_variants_gpu.noisy(*batch)
    else:
        shown = dsprites_variants_gpu.on_painting(batch[0], painting.to(device), *batch[1:])
    assert shown.dtype == torch.float32
    assert shown.shape == expected.shape
    assert torch.equal(shown.cpu(), expected)
    return shown.cpu()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", [(1, 1), (5, 3), (41, 35), (64, 64)], ids=str)
def test_images_of_any_size(device, variant, size):
    shown = check(device, variant, sprites(2, 3, *size, 1), SEEDS[:2])
    assert not torch.equal(shown[0], shown[1])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("models", [1, 5])
@pytest.mark.parametrize("count", [1, 7])
def test_any_number_of_models_and_images(device, variant, models, count):
    check(device, variant, sprites(models, count, 6, 5, 1), SEEDS[-models:], torch.arange(count))


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_images(device, variant):
    check(device, variant, sprites(2, 0, 6, 5, 1), SEEDS[:2], PLACES[:0])


@pytest.mark.parametrize("variant", VARIANTS)
def test_images_may_be_shared_between_models(device, variant):
    images = sprites(3, 6, 5, 1)
    shown = check(device, variant, images, SEEDS)
    copies = images.expand(len(SEEDS), -1, -1, -1, -1)
    assert torch.equal(shown, check(device, variant, copies, SEEDS))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("step", [0, 1234, 2**31 + 1, 2**32 - 5])
def test_a_step_is_a_number_or_a_tensor(device, variant, step):
    shown = check(device, variant, sprites(2, 3, 6, 5, 1), SEEDS[:2], step=step)
    there = check(device, variant, sprites(2, 3, 6, 5, 1), SEEDS[:2], step=torch.tensor(step))
    assert torch.equal(shown, there)
    before = check(device, variant, sprites(2, 3, 6, 5, 1), SEEDS[:2], step=7)
    assert not torch.equal(shown, before)


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_seed_for_all_images(device, variant):
    check(device, variant, sprites(3, 6, 5, 1), 7)
    check(device, variant, sprites(2, 3, 6, 5, 1), 7, torch.tensor([[3, 9, 2**32 - 5], [0, 1, 4]]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_items_are_named_by_their_numbers(device, variant):
    images, items = sprites(2, 3, 6, 5, 1), torch.tensor([[9, 0, 2**32 - 5], [2**31, 4, 4]])
    check(device, variant, images, SEEDS[:2], items)
    check(device, variant, images, SEEDS[:2], items.T.contiguous().T)
    check(device, variant, images, SEEDS[:2], items[:, :1])
    shown = check(device, variant, images[:1].expand(2, -1, -1, -1, -1), SEEDS[:2], items[:1])
    same = check(device, variant, images[:1, :1].expand(2, 3, -1, -1, -1), SEEDS[:2], items[1])
    assert torch.equal(same[:, 1], same[:, 2])
    assert not torch.equal(shown[:, 1], shown[:, 2])


@pytest.mark.parametrize("variant", VARIANTS)
def test_seeds_and_models_may_have_more_axes(device, variant):
    check(device, variant, sprites(2, 2, 3, 6, 5, 1), SEEDS[:4].view(2, 2))
    check(device, variant, sprites(3, 6, 5, 1), SEEDS[:4].view(2, 2).T)
    check(device, variant, sprites(2, 1, 3, 6, 5, 1), SEEDS[:2])


@pytest.mark.parametrize("variant", VARIANTS)
def test_images_may_be_views_floats_or_have_three_channels(device, variant):
    check(device, variant, sprites(2, 3, 5, 6, 1).transpose(2, 3), SEEDS[:2])
    check(device, variant, sprites(2, 6, 6, 5, 1)[:, ::2], SEEDS[:2])
    check(device, variant, sprites(2, 3, 6, 5, 3)[..., :1], SEEDS[:2])
    check(device, variant, as_floats(sprites(2, 3, 6, 5, 1, grey=True)), SEEDS[:2])
    check(device, variant, sprites(2, 3, 6, 5, 3), SEEDS[:2])


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_byte_is_divided_as_the_plain_formula_divides(device, variant):
    every = torch.arange(256, dtype=torch.uint8).view(1, 16, 16, 1)
    check(device, variant, every.expand(3, -1, -1, -1), 7)


@pytest.mark.parametrize("size", [(7, 6), (7, 90), (90, 6), (350, 274)], ids=str)
def test_paintings_of_any_size(device, size):
    check(device, "scream", sprites(2, 3, 6, 5, 1), SEEDS[:2], painting=picture(*size))


def test_paintings_may_be_views(device):
    painting = picture(9, 20).transpose(0, 1)
    check(device, "scream", sprites(2, 3, 6, 5, 1), SEEDS[:2], painting=painting)


def test_images_of_other_channels_are_refused(device):
    stream = Stream(SEEDS[:2].to(device), "appearance")
    with pytest.raises(RuntimeError, match="broadcast"):
        dsprites_variants_gpu.noisy(sprites(2, 3, 6, 5, 2).to(device), stream, PLACES.to(device))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_data_set_gives_the_same_images_as_on_the_host(device, variant, monkeypatch):
    monkeypatch.setattr("unweave.data.dsprites_variants.fused", lambda _: True)
    drawn = sprites(7, 9, 8, 1).numpy()
    appearance = {"color": Colored(), "noisy": Noisy(), "scream": OnPainting(picture(20, 30))}
    data = Dataset("sprites", Bits.pack(drawn), appearance=appearance[variant])
    moved = data.to(device)
    indices, seeds = torch.tensor([[6, 0, 3], [3, 3, 1]]), SEEDS[:2]
    there = indices.to(device), seeds.to(device), torch.tensor(4, device=device)
    shown = moved.pixels(*there, PLACES.to(device)), moved.pixels(*there), moved.images(indices)
    monkeypatch.undo()
    plain = data.pixels(indices.numpy(), seeds, 4, PLACES), data.pixels(indices.numpy(), seeds, 4)
    assert torch.equal(shown[0].cpu(), plain[0])
    assert torch.equal(shown[1].cpu(), plain[1])
    assert torch.equal(shown[2].cpu(), torch.as_tensor(data.images(indices.numpy())))
