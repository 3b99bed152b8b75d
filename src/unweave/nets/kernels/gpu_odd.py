"""Convolutions with taps that have no kernels of their own, on a GPU.

Products are PyTorch's, as in `reference.py`. The transpose adds neighbourhoods up in one kernel,
in float32, where the plain version takes a pass for each of the k × k taps.
"""

import sys

import torch
import triton
import triton.language as tl
from torch import Tensor

from unweave.nets.kernels import reference
from unweave.nets.kernels.reference import conv, conv_weight_grad

__all__ = [
    "conv",
    "conv_backward",
    "conv_transpose",
    "conv_transpose_backward",
    "conv_weight_grad",
]

_here = sys.modules[__name__]
BLOCK = 512


def conv_transpose(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """See `reference.conv_transpose`."""
    models, batch, height, width, _ = small.shape
    kernel, channels = weight.shape[1], weight.shape[3]
    columns = torch.bmm(small.flatten(1, 3), weight.flatten(1, 3).mT)
    large = columns.new_empty(models, batch, 2 * height, 2 * width, channels)
    # Images come first: a grid may be much longer that way than the other.
    grid = (models * batch, triton.cdiv(large[0, 0].numel(), BLOCK))
    before, _ = reference.margins(kernel)
    _add_kernel[grid](columns, large, height, width, channels, before, kernel, BLOCK)
    return reference.finish(large, bias, relu, mask)


def conv_backward(
    large: Tensor, gradient: Tensor, weight: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """See `reference.conv_backward`."""
    return reference.composed_backward(_here, large, gradient, weight, mask)


def conv_transpose_backward(
    gradient: Tensor, small: Tensor, weight: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """See `reference.conv_transpose_backward`."""
    return reference.composed_transpose_backward(_here, gradient, small, weight, mask)


@triton.jit
def _add_kernel(
    columns,
    large,
    height,
    width,
    channels,
    BEFORE: tl.constexpr,
    KERNEL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """large(y, x) = Σ columns(i, j, t, u) over 2 i + t = y + before and 2 j + u = x + before."""
    image = tl.program_id(0).to(tl.int64)
    item = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    size = 4 * height * width * channels
    channel, pixel = item % channels, item // channels
    y, x = pixel // (2 * width) + BEFORE, pixel % (2 * width) + BEFORE
    own = columns + image * height * width * KERNEL * KERNEL * channels
    total = tl.zeros((BLOCK,), tl.float32)
    for row in tl.static_range((KERNEL + 1) // 2):
        t = y % 2 + 2 * row
        i = (y - t) // 2
        sees = (item < size) & (t < KERNEL) & (y >= t) & (i < height)
        for column in tl.static_range((KERNEL + 1) // 2):
            u = x % 2 + 2 * column
            j = (x - u) // 2
            known = sees & (u < KERNEL) & (x >= u) & (j < width)
            place = (((i * width + j) * KERNEL + t) * KERNEL + u) * channels + channel
            total += tl.load(own + place, mask=known, other=0.0).to(tl.float32)
    at = large + image * size + item
    tl.store(at, total.to(large.dtype.element_ty), mask=item < size)
