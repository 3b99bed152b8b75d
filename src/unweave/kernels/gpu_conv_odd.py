"""Convolutions on a GPU for kernel sizes without specialised kernels.

Matrix products use PyTorch, as in `reference.py`, with one exception: the gradient of a small
weight sums over many pixels, which PyTorch does not split over enough programs for several models.
The transpose sums neighbourhoods in one kernel, in float32, where the reference needs a pass for
each of the k × k taps.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from unweave.kernels import reference
from unweave.kernels.gpu_conv import power, precision
from unweave.kernels.reference import conv

__all__ = ["conv", "conv_transpose", "conv_weight_grad"]

BLOCK = 512
SMALL = 128
"""Largest neighbourhood and number of outputs of a small weight."""
PIXELS, PIXELS_PER_PASS = 2048, 64
"""Pixels per program and per block in the gradient of a small weight."""


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
    # Images are the first axis of the grid, which may be much longer than the second.
    grid = (models * batch, triton.cdiv(large[0, 0].numel(), BLOCK))
    before, _ = reference.margins(kernel)
    _add_kernel[grid](columns, large, height, width, channels, before, kernel, BLOCK)
    return reference.finish(large, bias, relu, mask)


def conv_weight_grad(
    large: Tensor, small: Tensor, kernel: int, bias: str | None = None
) -> tuple[Tensor, Tensor | None]:
    """See `reference.conv_weight_grad`."""
    taps, outputs = kernel * kernel * large.shape[-1], small.shape[-1]
    if max(taps, outputs) > SMALL:
        return reference.conv_weight_grad(large, small, kernel, bias)
    columns = reference.neighbourhoods(reference.unit(large, small.dtype), kernel)
    models, pixels, _ = columns.shape
    parts = triton.cdiv(pixels, PIXELS)
    sums = torch.empty(models, parts, taps, outputs, device=small.device)
    _product_kernel[(models * parts,)](
        columns,
        small.contiguous(),
        sums,
        parts,
        pixels,
        taps,
        outputs,
        power(taps),
        power(outputs),
        PIXELS,
        PIXELS_PER_PASS,
        precision(),
    )
    gradient = sums.sum(1).to(small.dtype)
    summed = None if bias is None else (small if bias == "small" else large).sum((1, 2, 3))
    return gradient.unflatten(1, (kernel, kernel, large.shape[-1])), summed


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


@triton.jit
def _product_kernel(
    columns,
    small,
    sums,
    parts,
    pixels,
    taps,
    outputs,
    TAPS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PIXELS: tl.constexpr,
    PIXELS_PER_PASS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Σ columns(pixel, tap) small(pixel, output) over some pixels of a model."""
    part = tl.program_id(0) % parts
    model = (tl.program_id(0) // parts).to(tl.int64)
    tap, output = tl.arange(0, TAPS), tl.arange(0, OUTPUTS)
    total = tl.zeros((TAPS, OUTPUTS), tl.float32)
    for start in range(0, PIXELS, PIXELS_PER_PASS):
        pixel = part * PIXELS + start + tl.arange(0, PIXELS_PER_PASS)
        row = model * pixels + pixel
        known = pixel < pixels
        seen = tl.load(
            columns + row[None, :] * taps + tap[:, None],
            mask=known[None, :] & (tap < taps)[:, None],
            other=0.0,
        )
        back = tl.load(
            small + row[:, None] * outputs + output[None, :],
            mask=known[:, None] & (output < outputs)[None, :],
            other=0.0,
        )
        total = tl.dot(seen, back, total, input_precision=PRECISION)
    place = (model * parts + part) * taps * outputs + tap[:, None] * outputs + output[None, :]
    tl.store(sums + place, total, mask=(tap < taps)[:, None] & (output < outputs)[None, :])
