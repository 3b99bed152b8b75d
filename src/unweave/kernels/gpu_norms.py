"""Instance normalisation on a GPU: one kernel forward and one backward, a dozen in PyTorch.

    n = (x - μ) / √(σ² + ε),     a = γ n + β,     y = a if a > 0, else slope · a

with μ and σ² over the P pixels of a channel. With ȧ = ∂L / ∂a, and likewise for the others,

    β̇ = Σ ȧ,     γ̇ = Σ ȧ n,     ẋ = γ (ȧ - β̇ / P - n γ̇ / P) / √(σ² + ε)

A program processes some channels of one image, and reads them repeatedly from the cache.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from unweave.kernels import reference

__all__ = ["instance_norm"]

PIXELS, CHANNELS = 64, 32


def instance_norm(x: Tensor, both: Tensor | None, activation: str, slope: float) -> Tensor:
    """See `reference.instance_norm`; `slope` is the slope of the activation below 0."""
    return _InstanceNorm.apply(x, both, activation, slope)


class _InstanceNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, x: Tensor, both: Tensor | None, activation: str, slope: float
    ) -> Tensor:
        x, both = x.contiguous(), None if both is None else both.contiguous()
        y = torch.empty_like(x)
        # Mean and 1 / standard deviation.
        moments = torch.empty(2, *x.shape[:2], x.shape[-1], device=x.device)
        _launch(_forward_kernel, x, both, moments, y, slope, reference.EPSILON)
        context.activation, context.slope = activation, slope
        context.save_for_backward(x, both, moments)
        return y

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, both, moments = context.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives
            inputs = (x,) if both is None else (x, both)
            y = reference.instance_norm(x, both, context.activation)
            found = torch.autograd.grad(y, inputs, gradient, create_graph=True)
            return *found, *(None,) * (4 - len(found))
        of_x, of_both = torch.empty_like(x), None if both is None else torch.empty_like(both)
        others = (gradient.contiguous(), of_x, of_both)
        _launch(_backward_kernel, x, both, moments, *others, context.slope)
        return of_x, of_both, None, None


def _launch(kernel: Any, x: Tensor, both: Tensor | None, *others: Any) -> None:
    models, batch, height, width, channels = x.shape
    # Only the first axis of a grid may be longer than 65,535.
    grid = (models * batch, triton.cdiv(channels, CHANNELS))
    sizes = (models * batch, height * width, channels)
    kernel[grid](x, both, *others, *sizes, both is not None, PIXELS, CHANNELS)


@triton.jit
def _forward_kernel(
    x,
    both,
    moments,
    y,
    slope,
    epsilon,
    images,
    pixels,
    channels,
    ADAPTIVE: tl.constexpr,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    own, place = channel < channels, image * channels + channel
    at = image * pixels * channels + channel[None, :]
    total = tl.zeros((PIXELS, CHANNELS), tl.float32)
    for start in range(0, pixels, PIXELS):
        pixel = start + tl.arange(0, PIXELS)[:, None]
        known = (pixel < pixels) & own[None, :]
        total += tl.load(x + at + pixel * channels, mask=known, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / pixels
    total = tl.zeros((PIXELS, CHANNELS), tl.float32)
    for start in range(0, pixels, PIXELS):
        pixel = start + tl.arange(0, PIXELS)[:, None]
        known = (pixel < pixels) & own[None, :]
        value = tl.load(x + at + pixel * channels, mask=known, other=0.0).to(tl.float32)
        value = tl.where(known, value - mean[None, :], 0.0)
        total += value * value
    inverse = 1 / tl.sqrt(tl.sum(total, 0) / pixels + epsilon)
    tl.store(moments + place, mean, mask=own)
    tl.store(moments + images * channels + place, inverse, mask=own)
    scale, shift = _adapted(both, image, channel, channels, own, ADAPTIVE, CHANNELS)
    for start in range(0, pixels, PIXELS):
        pixel = start + tl.arange(0, PIXELS)[:, None]
        known = (pixel < pixels) & own[None, :]
        value = tl.load(x + at + pixel * channels, mask=known, other=0.0).to(tl.float32)
        value = (value - mean[None, :]) * inverse[None, :] * scale[None, :] + shift[None, :]
        value = tl.where(value > 0, value, value * slope)
        tl.store(y + at + pixel * channels, value.to(y.dtype.element_ty), mask=known)


@triton.jit
def _backward_kernel(
    x,
    both,
    moments,
    gradient,
    of_x,
    of_both,
    slope,
    images,
    pixels,
    channels,
    ADAPTIVE: tl.constexpr,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    own, place = channel < channels, image * channels + channel
    at = image * pixels * channels + channel[None, :]
    mean = tl.load(moments + place, mask=own, other=0.0)
    inverse = tl.load(moments + images * channels + place, mask=own, other=0.0)
    scale, shift = _adapted(both, image, channel, channels, own, ADAPTIVE, CHANNELS)
    sums = tl.zeros((PIXELS, CHANNELS), tl.float32)
    products = tl.zeros((PIXELS, CHANNELS), tl.float32)
    for start in range(0, pixels, PIXELS):
        pixel = start + tl.arange(0, PIXELS)[:, None]
        known = (pixel < pixels) & own[None, :]
        normal, back = _normalised(
            x, gradient, at + pixel * channels, known, mean, inverse, scale, shift, slope
        )
        sums += back
        products += back * normal
    of_shift, of_scale = tl.sum(sums, 0), tl.sum(products, 0)
    if ADAPTIVE:
        first = of_both + 2 * image * channels + channel
        tl.store(first, of_scale.to(of_both.dtype.element_ty), mask=own)
        tl.store(first + channels, of_shift.to(of_both.dtype.element_ty), mask=own)
    factor = scale * inverse
    for start in range(0, pixels, PIXELS):
        pixel = start + tl.arange(0, PIXELS)[:, None]
        known = (pixel < pixels) & own[None, :]
        normal, back = _normalised(
            x, gradient, at + pixel * channels, known, mean, inverse, scale, shift, slope
        )
        back -= (of_shift[None, :] + normal * of_scale[None, :]) / pixels
        back *= factor[None, :]
        tl.store(of_x + at + pixel * channels, back.to(of_x.dtype.element_ty), mask=known)


@triton.jit
def _adapted(both, image, channel, channels, own, ADAPTIVE: tl.constexpr, CHANNELS: tl.constexpr):
    """Load γ and β of some channels of an image."""
    if ADAPTIVE:
        first = both + 2 * image * channels + channel
        scale = tl.load(first, mask=own, other=0.0).to(tl.float32)
        shift = tl.load(first + channels, mask=own, other=0.0).to(tl.float32)
    else:
        scale = tl.full((CHANNELS,), 1.0, tl.float32)
        shift = tl.full((CHANNELS,), 0.0, tl.float32)
    return scale, shift


@triton.jit
def _normalised(x, gradient, place, known, mean, inverse, scale, shift, slope):
    """Return n and ȧ."""
    value = tl.load(x + place, mask=known, other=0.0).to(tl.float32)
    normal = (value - mean[None, :]) * inverse[None, :]
    back = tl.load(gradient + place, mask=known, other=0.0).to(tl.float32)
    back = tl.where(normal * scale[None, :] + shift[None, :] > 0, back, back * slope)
    return normal, back
