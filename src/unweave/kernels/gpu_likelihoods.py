"""Likelihoods on a GPU: one pass over outputs and images, forward and backward.

bernoulli    loss = Σ max(l, 0) - l x + log(1 + exp(-|l|)),     ∂ loss / ∂ l = sigmoid(l) - x
squared      loss = Σ (p - x)²,                                 ∂ loss / ∂ p = 2 (p - x)
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["gradients", "losses"]

BLOCK = 1024


def losses(outputs: Tensor, images: Tensor, squared: bool = False) -> Tensor:
    """Compute `reference.bernoulli` or `reference.squared_error`, float32 `[M, B]`."""
    models, batch = outputs.shape[:2]
    outputs, images = outputs.contiguous(), images.contiguous()
    out = torch.empty(models, batch, dtype=torch.float32, device=outputs.device)
    pixels = outputs[0, 0].numel()
    _loss_kernel[(models * batch,)](outputs, images, out, pixels, squared, BLOCK)
    return out


def gradients(outputs: Tensor, images: Tensor, upstream: Tensor, squared: bool = False) -> Tensor:
    """Return the gradient of the outputs; `upstream` `[M, B]` is the gradient of the losses."""
    models, batch = outputs.shape[:2]
    outputs, images = outputs.contiguous(), images.contiguous()
    out, pixels = torch.empty_like(outputs), outputs[0, 0].numel()
    # Only the first axis of a grid may be longer than 65,535.
    grid = (models * batch, triton.cdiv(pixels, BLOCK))
    _gradient_kernel[grid](outputs, images, upstream.contiguous(), out, pixels, squared, BLOCK)
    return out


@triton.jit
def _load(outputs, images, image, pixel, known, pixels):
    place = image * pixels + pixel
    output = tl.load(outputs + place, mask=known, other=0.0).to(tl.float32)
    value = tl.load(images + place, mask=known, other=0).to(tl.float32)
    if images.dtype.element_ty == tl.uint8:
        value *= 1 / 255
    return output, value


@triton.jit
def _loss_kernel(outputs, images, out, pixels, SQUARED: tl.constexpr, BLOCK: tl.constexpr):
    image = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, pixels, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        known = pixel < pixels
        output, value = _load(outputs, images, image, pixel, known, pixels)
        if SQUARED:
            loss = (output - value) * (output - value)
        else:
            small = tl.exp(-tl.abs(output))
            # For small values the series is more precise than log(1 + small).
            series = small * (1 - small * (1 / 2 - small * (1 / 3 - small * (1 / 4 - small / 5))))
            softplus = tl.where(small < 0.03, series, tl.log(1 + small))
            loss = tl.maximum(output, 0.0) - output * value + softplus
        total += tl.where(known, loss, 0.0)
    tl.store(out + image, tl.sum(total, 0))


@triton.jit
def _gradient_kernel(
    outputs, images, upstream, out, pixels, SQUARED: tl.constexpr, BLOCK: tl.constexpr
):
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    known = pixel < pixels
    output, value = _load(outputs, images, image, pixel, known, pixels)
    excess = 2 * (output - value) if SQUARED else tl.sigmoid(output) - value
    gradient = excess * tl.load(upstream + image)
    tl.store(out + image * pixels + pixel, gradient.to(out.dtype.element_ty), mask=known)
