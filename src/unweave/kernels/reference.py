"""The definition of every kernel: plain PyTorch, any device, any dtype.

Shapes: M models, B images, H × W pixels of the large image, h × w = H/2 × W/2 of the small one,
C channels of the large image, O of the small one, k × k taps. Weights are always `[M, k, k, C,
O]`.

A stride-2 convolution takes large to small, its transpose small to large with the same weights,
and both have the same weight gradient, so the three functions are closed under differentiation.
Padding is (k - 2) / 2 on each side, for odd k one more after than before, which is what TensorFlow
calls "same".

Images may be bytes, 0 … 255, which stand for [0, 1]. A mask is an image of the result's shape:
where it is not positive, the result is 0, which is how a gradient goes back through a ReLU.
"""

import sys
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "ACTIVATIONS",
    "EPSILON",
    "LEAK",
    "bernoulli",
    "composed_backward",
    "composed_transpose_backward",
    "conv",
    "conv_backward",
    "conv_transpose",
    "conv_transpose_backward",
    "conv_weight_grad",
    "finish",
    "instance_norm",
    "linear",
    "margins",
    "neighbourhoods",
    "normalised",
    "unit",
]

_here = sys.modules[__name__]

LEAK = 0.2
EPSILON = 1e-5
"""Added to variances by which images are normalised."""
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": F.relu,
    "tanh": lambda x: x.tanh(),
    "leaky_relu": lambda x: F.leaky_relu(x, LEAK),
}


def unit(images: Tensor, dtype: torch.dtype) -> Tensor:
    """Images in [0, 1], whether they are bytes or already numbers."""
    return images.to(dtype) / 255 if images.dtype == torch.uint8 else images.to(dtype)


def linear(x: Tensor, weight: Tensor, bias: Tensor, activation: str = "none") -> Tensor:
    """`[M, B, I]`, `[M, I, O]`, `[M, O]` to `[M, B, O]`; the activation is of `ACTIVATIONS`."""
    return ACTIVATIONS[activation](torch.baddbmm(bias[:, None], unit(x, weight.dtype), weight))


def instance_norm(x: Tensor, both: Tensor | None, activation: str = "none") -> Tensor:
    """Normalise every channel of every image `[M, B, H, W, C]`; then γ n + β, and an activation.

    Args:
        x: The images.
        both: γ and then β, `[M, B, 2 C]`; None for 1 and 0.
        activation: Of `ACTIVATIONS`.
    """
    result = normalised(x, (2, 3))
    if both is not None:
        scale, shift = both.to(result.dtype)[:, :, None, None].chunk(2, -1)
        result = torch.addcmul(shift, result, scale)
    return ACTIVATIONS[activation](result.to(x.dtype))


def normalised(x: Tensor, axes: tuple[int, ...], reference: int | None = None) -> Tensor:
    """(x - mean) / √(variance + ε) over some axes, in float32 or better.

    Mean and variance are those of the first inputs for `reference`, or of all.
    """
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    variance, mean = torch.var_mean(x[:, :reference], axes, correction=0, keepdim=True)
    return (x - mean) * (variance + EPSILON).rsqrt()


def conv(
    large: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """`[M, B, H, W, C]` to `[M, B, h, w, O]`: small(i) = Σ_t large(2 i + t - p) · weight(t)."""
    models, batch, height, width, _ = large.shape
    columns = neighbourhoods(unit(large, weight.dtype), weight.shape[1])
    small = torch.bmm(columns, weight.flatten(1, 3))
    return finish(small.view(models, batch, height // 2, width // 2, -1), bias, relu, mask)


def conv_transpose(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """`[M, B, h, w, O]` to `[M, B, H, W, C]`: the adjoint of `conv` with the same weights."""
    if weight.shape[1] == 4 and weight.shape[3] > 1:
        return finish(_transpose_by_phases(small, weight), bias, relu, mask)
    columns = torch.bmm(small.flatten(1, 3), weight.flatten(1, 3).mT)
    return finish(_uncolumns(columns, small.shape[:4], weight.shape[1]), bias, relu, mask)


def conv_weight_grad(
    large: Tensor, small: Tensor, kernel: int, bias: str | None = None
) -> tuple[Tensor, Tensor | None]:
    """`[M, B, H, W, C]`, `[M, B, h, w, O]` to `[M, k, k, C, O]`: ∂⟨conv(large, w), small⟩ / ∂w.

    Args:
        large: The large images.
        small: The small ones.
        kernel: k.
        bias: Which of the two images had a bias, `"small"` (a convolution's result) or `"large"`
            (its transpose's); its gradient, the sum over pixels, comes second.
    """
    gradient = torch.bmm(neighbourhoods(unit(large, small.dtype), kernel).mT, small.flatten(1, 3))
    summed = None if bias is None else (small if bias == "small" else large).sum((1, 2, 3))
    return gradient.unflatten(1, (kernel, kernel, large.shape[-1])), summed


def conv_backward(
    large: Tensor, gradient: Tensor, weight: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `conv`'s images (masked), weight and bias from that of its result."""
    return composed_backward(_here, large, gradient, weight, mask)


def conv_transpose_backward(
    gradient: Tensor, small: Tensor, weight: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `conv_transpose`'s images (masked), weight and bias."""
    return composed_transpose_backward(_here, gradient, small, weight, mask)


def composed_backward(
    version: Any, large: Tensor, gradient: Tensor, weight: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """`conv_backward` by the single kernels of some version."""
    back = version.conv_transpose(gradient, weight, mask=mask)
    return back, *version.conv_weight_grad(large, gradient, weight.shape[1], "small")


def composed_transpose_backward(
    version: Any, gradient: Tensor, small: Tensor, weight: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """`conv_transpose_backward` by the single kernels of some version."""
    back = version.conv(gradient, weight, mask=mask)
    return back, *version.conv_weight_grad(gradient, small, weight.shape[1], "large")


def bernoulli(logits: Tensor, images: Tensor) -> Tensor:
    """-Σ [x log p + (1 - x) log(1 - p)], p = sigmoid(logits), `[M, B, H, W, C]` to `[M, B]`."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    losses = F.binary_cross_entropy_with_logits(
        logits, unit(images, logits.dtype), reduction="none"
    )
    return losses.flatten(2).sum(-1)


def finish(image: Tensor, bias: Tensor | None, relu: bool, mask: Tensor | None) -> Tensor:
    """Add the bias `[M, channels]`, cut off what is negative, and mask, where asked."""
    if bias is not None:
        image = image + bias[:, None, None, None]
    image = image.relu() if relu else image
    return image if mask is None else torch.ops.aten.threshold_backward(image, mask, 0)


def neighbourhoods(large: Tensor, kernel: int, stride: int = 2) -> Tensor:
    """The k × k neighbourhood of every small pixel, `[M, B * h * w, k * k * C]`."""
    models = len(large)
    before, after = margins(kernel, stride)
    wide = _wide(large)
    padded = F.pad(wide, (0, 0, before, after, before, after)) if after else wide
    windows = padded.unfold(2, kernel, stride).unfold(3, kernel, stride)
    columns = windows.permute(0, 1, 2, 3, 5, 6, 4).contiguous()
    return columns.view(large.dtype).view(models, -1, kernel * kernel * large.shape[-1])


def margins(kernel: int, stride: int = 2) -> tuple[int, int]:
    """How far the first window reaches out of the image, and the last."""
    before = (kernel - stride) // 2
    return before, kernel - stride - before


def _wide(image: Tensor) -> Tensor:
    """The same memory as 16-byte numbers where the channels allow: copies are then much faster."""
    image = image.contiguous()
    size = image.element_size()
    fits = image.shape[-1] * size % 16 == 0 and image.storage_offset() * size % 16 == 0
    return image.view(torch.complex128) if fits else image


def _transpose_by_phases(small: Tensor, weight: Tensor) -> Tensor:
    """The transpose for 4 × 4 taps as one product.

    Each of the 2 × 2 phases of the large image sees 2 × 2 of the 3 × 3 neighbours of a small
    pixel: phase 0 the taps 3, 1 of neighbours -1, 0; phase 1 the taps 2, 0 of neighbours 0, 1.
    """
    models, batch, height, width, inputs = small.shape
    outputs = weight.shape[3]
    taps = weight.new_zeros(models, 3, 3, inputs, 2, 2, outputs)
    for phase_y, phase_x, step_y, step_x in product((0, 1), repeat=4):
        tap = weight[:, 3 - phase_y - 2 * step_y, 3 - phase_x - 2 * step_x]
        taps[:, phase_y + step_y, phase_x + step_x, :, phase_y, phase_x] = tap.mT
    columns = neighbourhoods(small, 3, 1)
    phases = torch.bmm(columns, taps.view(models, 9 * inputs, 4 * outputs))
    phases = _wide(phases.view(models, batch, height, width, 2, 2, outputs))
    large = phases.permute(0, 1, 2, 4, 3, 5, 6).contiguous().view(small.dtype)
    return large.view(models, batch, 2 * height, 2 * width, outputs)


def _uncolumns(columns: Tensor, small: tuple[int, ...], kernel: int) -> Tensor:
    """The adjoint of `neighbourhoods`: add every neighbourhood back where it came from."""
    models, batch, height, width = small
    taps = columns.view(models, batch, height, width, kernel, kernel, -1)
    before, after = margins(kernel)
    padded = (2 * height + before + after, 2 * width + before + after)
    large = columns.new_zeros(models, batch, *padded, taps.shape[-1])
    for row in range(kernel):
        for column in range(kernel):
            place = large[:, :, row : row + 2 * height : 2, column : column + 2 * width : 2]
            place += taps[:, :, :, :, row, column]
    return large[:, :, before : before + 2 * height, before : before + 2 * width]
