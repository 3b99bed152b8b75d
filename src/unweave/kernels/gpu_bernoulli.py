"""Bernoulli likelihood on a GPU: one pass over logits and images, forward and backward.

loss = Σ max(l, 0) - l x + log(1 + exp(-|l|)),     ∂ loss / ∂ l = sigmoid(l) - x
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["gradients", "losses"]

BLOCK = 1024


def losses(logits: Tensor, images: Tensor) -> Tensor:
    """Compute `reference.bernoulli`, float32 `[M, B]`."""
    models, batch = logits.shape[:2]
    logits, images = logits.contiguous(), images.contiguous()
    out = torch.empty(models, batch, dtype=torch.float32, device=logits.device)
    _loss_kernel[(models * batch,)](logits, images, out, logits[0, 0].numel(), BLOCK)
    return out


def gradients(logits: Tensor, images: Tensor, upstream: Tensor) -> Tensor:
    """Return the gradient of the logits; `upstream` `[M, B]` is the gradient of the losses."""
    models, batch = logits.shape[:2]
    logits, images = logits.contiguous(), images.contiguous()
    out, pixels = torch.empty_like(logits), logits[0, 0].numel()
    # Only the first axis of a grid may be longer than 65,535.
    grid = (models * batch, triton.cdiv(pixels, BLOCK))
    _gradient_kernel[grid](logits, images, upstream.contiguous(), out, pixels, BLOCK)
    return out


@triton.jit
def _load(logits, images, image, pixel, known, pixels):
    place = image * pixels + pixel
    logit = tl.load(logits + place, mask=known, other=0.0).to(tl.float32)
    value = tl.load(images + place, mask=known, other=0).to(tl.float32)
    if images.dtype.element_ty == tl.uint8:
        value *= 1 / 255
    return logit, value


@triton.jit
def _loss_kernel(logits, images, out, pixels, BLOCK: tl.constexpr):
    image = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, pixels, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        known = pixel < pixels
        logit, value = _load(logits, images, image, pixel, known, pixels)
        small = tl.exp(-tl.abs(logit))
        # For small values the series is more precise than log(1 + small).
        series = small * (1 - small * (1 / 2 - small * (1 / 3 - small * (1 / 4 - small / 5))))
        softplus = tl.where(small < 0.03, series, tl.log(1 + small))
        loss = tl.maximum(logit, 0.0) - logit * value + softplus
        total += tl.where(known, loss, 0.0)
    tl.store(out + image, tl.sum(total, 0))


@triton.jit
def _gradient_kernel(logits, images, upstream, out, pixels, BLOCK: tl.constexpr):
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    known = pixel < pixels
    logit, value = _load(logits, images, image, pixel, known, pixels)
    excess = tl.sigmoid(logit) - value
    gradient = excess * tl.load(upstream + image)
    tl.store(out + image * pixels + pixel, gradient.to(out.dtype.element_ty), mask=known)
