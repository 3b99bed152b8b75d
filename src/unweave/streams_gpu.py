"""Philox on a GPU: the numbers of `streams.py`, to the bit, in one kernel."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["draw"]

BLOCK = 256


def draw(
    seeds: Tensor, items: Tensor, step: int | Tensor, purpose: int, width: int, uniform: bool
) -> Tensor:
    """Words as int64, or uniform float32, `[*S, n, width]`; see `Stream.words`.

    Args:
        seeds: int64 `[*S]`
        items: int64, broadcasts against `[*S, n]`.
        step: A counter.
        purpose: A number for the purpose.
        width: Numbers per item.
        uniform: Whether to turn words into numbers in [0, 1).
    """
    count = items.shape[-1]
    keys = seeds.reshape(-1).contiguous()
    items = items.expand(*seeds.shape, count).reshape(len(keys), count)
    dtype = torch.float32 if uniform else torch.int64
    out = torch.empty(len(keys), count, width, dtype=dtype, device=seeds.device)
    steps = torch.as_tensor(step, device=seeds.device)
    blocks = math.ceil(width / 4)
    grid = (triton.cdiv(count * blocks, BLOCK), len(keys))
    # A counter is a word; Triton would take a Python number above 2**31 for a long.
    signed = purpose - 2**32 if purpose >= 2**31 else purpose
    _kernel[grid](
        keys, items, steps, out, signed, count, width, blocks, *items.stride(), uniform, BLOCK
    )
    return out.reshape(*seeds.shape, count, width)


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
    UNIFORM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    key = tl.program_id(1).to(tl.int64)
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    block = lane % blocks
    place = lane // blocks
    known = place < count
    item = tl.load(items + key * key_stride + place * item_stride, mask=known, other=0)
    zero = lane * 0
    step = tl.load(steps).to(tl.uint32) + zero.to(tl.uint32)
    words = tl.philox(
        tl.load(keys + key),
        block.to(tl.uint32),
        item.to(tl.uint32),
        step,
        (purpose + zero).to(tl.uint32, bitcast=True),
    )
    start = (key * count + place) * width
    for j in tl.static_range(4):
        at = 4 * block + j
        real = known & (at < width)
        if UNIFORM:
            tl.store(
                out + start + at,
                (words[j] >> 8).to(tl.float32) * 5.9604644775390625e-08,
                mask=real,
            )
        else:
            tl.store(out + start + at, words[j].to(tl.int64), mask=real)
