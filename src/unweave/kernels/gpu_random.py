"""Philox on a GPU: the numbers of `streams.py` in one kernel.

Words and uniform numbers are the same bits, normal numbers the same up to rounding.
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
    """What `Stream.words`, `Stream.uniform` or `Stream.normal` draws, `[*S, n, width]`.

    Args:
        kind: `"words"`, `"uniform"` or `"normal"`.
        seeds: int64 `[*S]`
        items: int64, broadcasts against `[*S, n]`.
        step: A counter.
        purpose: A number for the purpose.
        width: Numbers per item.
    """
    count = items.shape[-1]
    keys = seeds.reshape(-1).contiguous()
    items = items.expand(*seeds.shape, count).reshape(len(keys), count)
    out = torch.empty(len(keys), count, width, dtype=DTYPES[kind], device=seeds.device)
    # A number is written by the device: a copy from the host cannot be recorded in a graph.
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
    """A word as Triton takes it: a Python number above 2**31 would pass for a long."""
    return purpose - 2**32 if purpose >= 2**31 else purpose


@triton.jit
def four_words(key, block, item, step, purpose):
    """The words 4 · block … 4 · block + 3 of an item, in the shape of `block`."""
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
    """A word as a number in [0, 1), exactly, so that nothing after it can round differently."""
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
    """Two normal numbers of two uniform ones, by Box-Muller."""
    # On its grid 1 - u is exact, so that its logarithm is as good as log1p.
    radius = tl.sqrt_rn(-2 * tl.log(1 - one))
    angle = 6.283185307179586 * other
    return radius * tl.cos(angle), radius * tl.sin(angle)
