"""Philox on a GPU: the random numbers of `unweave.random` in one kernel.

Words and uniform numbers are bit-identical to those on a CPU; normal numbers agree up to rounding.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["as_uniform", "draw", "four_words", "signed"]

BLOCK = 256
DTYPES = {"words": torch.int64, "uniform": torch.float32, "normal": torch.float32}


def draw(
    kind: str, seeds: Tensor, items: Tensor, step: int | Tensor, purpose: int, width: int
) -> Tensor:
    """Compute `Stream.words`, `Stream.uniform` or `Stream.normal`, `[*S, n, width]`.

    Seeds are int64 `[*S]`; items are int64 and broadcast with `[*S, n]`.
    """
    count = items.shape[-1]
    keys = seeds.reshape(-1).contiguous()
    items = items.expand(*seeds.shape, count).reshape(len(keys), count)
    out = torch.empty(len(keys), count, width, dtype=DTYPES[kind], device=seeds.device)
    # Fill on the device: a copy from the host cannot be captured in a CUDA graph.
    if isinstance(step, Tensor):
        steps = step.to(seeds.device)
    else:
        steps = torch.full((), step, dtype=torch.int64, device=seeds.device)
    blocks = math.ceil(width / 4)
    grid = (triton.cdiv(count * blocks, BLOCK), len(keys))
    _kernel[grid](
        keys,
        items,
        steps,
        out,
        signed(purpose),
        count,
        width,
        blocks,
        *items.stride(),
        kind,
        BLOCK,
    )
    return out.reshape(*seeds.shape, count, width)


def signed(purpose: int) -> int:
    """Convert a word to int32, since Triton would treat larger Python integers as int64."""
    return purpose - 2**32 if purpose >= 2**31 else purpose


@triton.jit
def four_words(key, block, item, step, purpose):
    """Return the words 4 · block … 4 · block + 3 of an item, in the shape of `block`."""
    zero = block * 0
    return tl.philox(
        key,
        block.to(tl.uint32),
        (item + zero).to(tl.uint32),
        (step + zero).to(tl.uint32),
        (purpose + zero).to(tl.uint32, bitcast=True),
    )


@triton.jit
def as_uniform(word):
    """Convert a word to a number in [0, 1), exactly, so that rounding cannot differ."""
    return (word >> 8).to(tl.float32) * 5.9604644775390625e-08


@triton.jit
def _kernel(
    keys,
    items,
    steps,
    out,
    purpose,
    count,
    width,
    blocks,
    key_stride,
    item_stride,
    KIND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    key = tl.program_id(1).to(tl.int64)
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    block = lane % blocks
    place = lane // blocks
    known = place < count
    item = tl.load(items + key * key_stride + place * item_stride, mask=known, other=0)
    words = four_words(tl.load(keys + key), block, item, tl.load(steps), purpose)
    if KIND == "words":
        drawn = words
    else:
        a, b = as_uniform(words[0]), as_uniform(words[1])
        c, d = as_uniform(words[2]), as_uniform(words[3])
        drawn = (a, b, c, d) if KIND == "uniform" else _normal(a, b) + _normal(c, d)
    start = (key * count + place) * width
    for j in tl.static_range(4):
        at = 4 * block + j
        number = drawn[j].to(out.dtype.element_ty)
        tl.store(out + start + at, number, mask=known & (at < width))


@triton.jit
def _normal(one, other):
    """Return two normal numbers from two uniform ones, by Box-Muller."""
    # 1 - u is exact for these u, so its logarithm is as precise as log1p.
    radius = tl.sqrt_rn(-2 * tl.log(1 - one))
    angle = 6.283185307179586 * other
    return radius * tl.cos(angle), radius * tl.sin(angle)
