"""Packed bits on a GPU, gathered and unpacked by one kernel."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["gather"]

BLOCK = 1024


def gather(array: Tensor, indices: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """Return images `[..., H, W, C]`, 0 or 255, of packed rows `[N, bytes]`; see `Bits.gather`."""
    out = torch.empty(*indices.shape, *shape, dtype=torch.uint8, device=array.device)
    flat, pixels = indices.reshape(-1).contiguous(), math.prod(shape)
    grid = (len(flat), triton.cdiv(pixels, BLOCK))
    _kernel[grid](array, flat, out, array.shape[1], pixels, BLOCK)
    return out


@triton.jit
def _kernel(array, indices, out, width, pixels, BLOCK: tl.constexpr):
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    known = pixel < pixels
    row = tl.load(indices + image)
    packed = tl.load(array + row * width + pixel // 8, mask=known, other=0).to(tl.int32)
    bit = packed >> (7 - pixel % 8) & 1
    tl.store(out + image * pixels + pixel, (bit * 255).to(tl.uint8), mask=known)
