"""Color-, Noisy- and Scream-dSprites on a GPU: one pass over the pixels each.

Every value of an image is made where it is written, from the sprite and from numbers drawn there.
The images are those of `dsprites_variants.py`, to the bit: whether a product and a sum are rounded
once or twice makes no difference, since the products are exact.
"""

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from unweave.kernels.gpu_random import as_uniform, four_words, signed

if TYPE_CHECKING:
    from unweave.random import Stream

__all__ = ["colored", "noisy", "on_painting"]

BLOCK = 4096
"""Values per program: each draws its image's numbers anew, so it should have many to fill."""


def colored(images: Tensor, stream: "Stream", items: Tensor) -> Tensor:
    """See `Colored`."""
    return _paint(_color_kernel, images, stream, items)


def noisy(images: Tensor, stream: "Stream", items: Tensor) -> Tensor:
    """See `Noisy`."""
    return _paint(_noise_kernel, images, stream, items)


def on_painting(images: Tensor, painting: Tensor, stream: "Stream", items: Tensor) -> Tensor:
    """See `OnPainting`."""
    height, width = images.shape[-3:-1]
    rows, columns = painting.shape[:2]
    return _paint(
        _painting_kernel,
        images,
        stream,
        items,
        painting.contiguous(),
        rows - height,
        columns - width,
        columns,
        width,
    )


def _paint(kernel: Any, images: Tensor, stream: "Stream", items: Tensor, *own: Any) -> Tensor:
    """Launch a kernel for all images `[*S, n, H, W, C]`, which may be shared between seeds.

    Args:
        kernel: One of those below.
        images: Bytes or float32 in [0, 1], of one channel or three.
        stream: With seeds `[*S]`.
        items: int64, broadcasts against `[*S, n]`.
        own: What only this kernel takes.
    """
    seeds, channels = stream.seeds, images.shape[-1]
    shape = torch.broadcast_shapes(
        images.shape, (*seeds.shape, 1, 1, 1, 3), (*items.shape, 1, 1, 3)
    )
    *models, count, height, width, _ = shape
    keys = seeds.expand(models).reshape(-1).contiguous()
    items = items.expand(*models, count).reshape(len(keys), count)
    sprites = images.contiguous().expand(*models, count, height, width, channels)
    sprites = sprites.reshape(len(keys), count, height * width * channels)
    out = torch.empty(shape, dtype=torch.float32, device=images.device)
    values = height * width * 3
    kernel[(len(keys) * count, triton.cdiv(values, BLOCK))](
        sprites,
        keys,
        items,
        torch.as_tensor(stream.step, device=images.device),
        out,
        signed(stream.purpose_word),
        count,
        values,
        *sprites.stride()[:2],
        *items.stride(),
        *own,
        channels,
        BLOCK,
    )
    return out


@triton.jit
def _sources(
    sprites, keys, items, image, count, model_stride, image_stride, key_stride, item_stride
):
    """Where the sprite of an image lies, and the seed and item to draw its numbers by."""
    model, place = (image // count).to(tl.int64), (image % count).to(tl.int64)
    sprite = sprites + model * model_stride + place * image_stride
    return sprite, tl.load(keys + model), tl.load(items + model * key_stride + place * item_stride)


@triton.jit
def _brightness(sprite, value, known, CHANNELS: tl.constexpr):
    """The sprite in [0, 1], under each value of the result."""
    if CHANNELS == 1:
        seen = tl.load(sprite + value // 3, mask=known, other=0).to(tl.float32)
    else:
        seen = tl.load(sprite + value, mask=known, other=0).to(tl.float32)
    if sprite.dtype.element_ty == tl.uint8:
        # 1 / 255 = 1 / 256 + 1 / 65280; for every byte, and however rounded, this gives the bits
        # of a division, which is slower.
        seen = seen * (1 / 256) + seen * (1 / 65280)
    return seen


@triton.jit
def _by_channel(value, red, green, blue):
    channel = value % 3
    return tl.where(channel == 0, red, tl.where(channel == 1, green, blue))


@triton.jit
def _color(word):
    return 0.5 + 0.5 * as_uniform(word)


@triton.jit
def _color_kernel(
    sprites,
    keys,
    items,
    step,
    out,
    purpose,
    count,
    values,
    model_stride,
    image_stride,
    key_stride,
    item_stride,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    image = tl.program_id(0)
    value = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    known = value < values
    sprite, key, item = _sources(
        sprites, keys, items, image, count, model_stride, image_stride, key_stride, item_stride
    )
    red, green, blue, _ = four_words(key, tl.full((), 0, tl.int32), item, tl.load(step), purpose)
    color = _by_channel(value, _color(red), _color(green), _color(blue))
    seen = _brightness(sprite, value, known, CHANNELS)
    tl.store(out + image.to(tl.int64) * values + value, seen * color, mask=known)


@triton.jit
def _noise_kernel(
    sprites,
    keys,
    items,
    step,
    out,
    purpose,
    count,
    values,
    model_stride,
    image_stride,
    key_stride,
    item_stride,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    image = tl.program_id(0)
    value = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    known = value < values
    sprite, key, item = _sources(
        sprites, keys, items, image, count, model_stride, image_stride, key_stride, item_stride
    )
    block = tl.program_id(1) * (BLOCK // 4) + tl.arange(0, BLOCK // 4)
    first, second, third, fourth = four_words(key, block, item, tl.load(step), purpose)
    # Four neighbours in one thread, in order, are written at once.
    words = tl.interleave(tl.interleave(first, third), tl.interleave(second, fourth))
    seen = _brightness(sprite, value, known, CHANNELS)
    shown = tl.minimum(seen + as_uniform(words), 1.0)
    tl.store(out + image.to(tl.int64) * values + value, shown, mask=known)


@triton.jit
def _painting_kernel(
    sprites,
    keys,
    items,
    step,
    out,
    purpose,
    count,
    values,
    model_stride,
    image_stride,
    key_stride,
    item_stride,
    painting,
    tops,
    lefts,
    columns,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    image = tl.program_id(0)
    value = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    known = value < values
    sprite, key, item = _sources(
        sprites, keys, items, image, count, model_stride, image_stride, key_stride, item_stride
    )
    zero, now = tl.full((), 0, tl.int32), tl.load(step)
    red, green, blue, down = four_words(key, zero, item, now, purpose)
    across, _, _, _ = four_words(key, zero + 1, item, now, purpose)
    row = tl.umulhi(down, tops).to(tl.int32) + value // 3 // WIDTH
    column = tl.umulhi(across, lefts).to(tl.int32) + value // 3 % WIDTH
    crop = tl.load(painting + (row * columns + column) * 3 + value % 3, mask=known, other=0.0)
    tint = _by_channel(value, as_uniform(red), as_uniform(green), as_uniform(blue))
    background = (crop + tint) * 0.5
    seen = _brightness(sprite, value, known, CHANNELS)
    shown = tl.where(seen == 1.0, 1.0 - background, background)
    tl.store(out + image.to(tl.int64) * values + value, shown, mask=known)
