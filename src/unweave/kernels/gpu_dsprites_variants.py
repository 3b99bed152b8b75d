"""Color-, Noisy- and Scream-dSprites on a GPU, in one pass over the pixels each.

Random numbers are generated where the pixels are written. The images are bit-identical to those of
`dsprites_variants.py`: products are exact, so fused multiply-add does not change the rounding.
"""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from unweave.kernels.gpu_random import as_uniform, four_words, signed

if TYPE_CHECKING:
    from unweave.random import Stream

__all__ = ["colored", "noisy", "on_painting"]

BLOCK = 4096
"""Values per program; large, since each program generates the random numbers of its image."""


def colored(images: Tensor, stream: "Stream", items: Tensor) -> Tensor:
    """See `Colored`."""
    return _paint("colored", images, stream, items)


def noisy(images: Tensor, stream: "Stream", items: Tensor) -> Tensor:
    """See `Noisy`."""
    return _paint("noisy", images, stream, items)


def on_painting(images: Tensor, painting: Tensor, stream: "Stream", items: Tensor) -> Tensor:
    """See `OnPainting`."""
    return _paint("on painting", images, stream, items, painting.contiguous())


def _paint(
    kind: str, images: Tensor, stream: "Stream", items: Tensor, painting: Tensor | None = None
) -> Tensor:
    """Launch the kernel for all images `[*S, n, H, W, C]`, which may be shared between seeds.

    Images are uint8 or float32 in [0, 1], with one or three channels; seeds of the stream are
    `[*S]`, and items broadcast with `[*S, n]`.
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
    rows, columns = (height, width) if painting is None else painting.shape[:2]
    _kernel[(len(keys) * count, triton.cdiv(values, BLOCK))](
        sprites,
        keys,
        items,
        torch.as_tensor(stream.step, device=images.device),
        painting,
        out,
        signed(stream.purpose_word),
        count,
        values,
        *sprites.stride()[:2],
        *items.stride(),
        rows - height,
        columns - width,
        columns,
        kind,
        width,
        channels,
        BLOCK,
    )
    return out


@triton.jit
def _kernel(
    sprites,
    keys,
    items,
    step,
    painting,
    out,
    purpose,
    count,
    values,
    model_stride,
    image_stride,
    key_stride,
    item_stride,
    tops,
    lefts,
    columns,
    KIND: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    image = tl.program_id(0)
    value = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    known = value < values
    model, place = (image // count).to(tl.int64), (image % count).to(tl.int64)
    sprite = sprites + model * model_stride + place * image_stride
    key = tl.load(keys + model)
    item = tl.load(items + model * key_stride + place * item_stride)
    zero, now = tl.full((), 0, tl.int32), tl.load(step)
    if KIND == "noisy":
        block = tl.program_id(1) * (BLOCK // 4) + tl.arange(0, BLOCK // 4)
        first, second, third, fourth = four_words(key, block, item, now, purpose)
        # Interleave, so that each thread writes four adjacent values at once.
        words = tl.interleave(tl.interleave(first, third), tl.interleave(second, fourth))
        seen = _brightness(sprite, value, known, CHANNELS)
        shown = tl.minimum(seen + as_uniform(words), 1.0)
    else:
        red, green, blue, down = four_words(key, zero, item, now, purpose)
        red, green, blue = as_uniform(red), as_uniform(green), as_uniform(blue)
        if KIND == "colored":
            color = _by_channel(value, 0.5 + 0.5 * red, 0.5 + 0.5 * green, 0.5 + 0.5 * blue)
            shown = _brightness(sprite, value, known, CHANNELS) * color
        else:
            across, _, _, _ = four_words(key, zero + 1, item, now, purpose)
            row = tl.umulhi(down, tops).to(tl.int32) + value // 3 // WIDTH
            column = tl.umulhi(across, lefts).to(tl.int32) + value // 3 % WIDTH
            at = painting + (row * columns + column) * 3 + value % 3
            crop = tl.load(at, mask=known, other=0.0)
            background = (crop + _by_channel(value, red, green, blue)) * 0.5
            seen = _brightness(sprite, value, known, CHANNELS)
            shown = tl.where(seen == 1.0, 1.0 - background, background)
    tl.store(out + image.to(tl.int64) * values + value, shown, mask=known)


@triton.jit
def _brightness(sprite, value, known, CHANNELS: tl.constexpr):
    """Return the brightness of the sprite in [0, 1] at each value of the result."""
    if CHANNELS == 1:
        seen = tl.load(sprite + value // 3, mask=known, other=0).to(tl.float32)
    else:
        seen = tl.load(sprite + value, mask=known, other=0).to(tl.float32)
    if sprite.dtype.element_ty == tl.uint8:
        # 1 / 255 = 1 / 256 + 1 / 65280: for every byte this gives the same bits as a division,
        # with or without fused multiply-add, but faster.
        seen = seen * (1 / 256) + seen * (1 / 65280)
    return seen


@triton.jit
def _by_channel(value, red, green, blue):
    channel = value % 3
    return tl.where(channel == 0, red, tl.where(channel == 1, green, blue))
