"""Reference implementation of all kernels in plain PyTorch, for any device and dtype.

Shapes: M models, B images, H × W pixels of the large image, h × w = H/2 × W/2 of the small one,
C channels of the large image, O of the small one, k × k taps. Weights are always `[M, k, k, C,
O]`.

A stride-2 convolution maps large images to small ones, its transpose maps small images to large
ones with the same weights, and both have the same weight gradient, so the three functions are
closed under differentiation. Padding is (k - 2) / 2 on each side; for odd k it is one more after
than before, as in TensorFlow's "same" padding.

Images may be uint8 values from 0 to 255, which are divided by 255. A mask has the shape of the
result, which is 0 where the mask is not positive, as in the gradient of a ReLU.
"""

from collections.abc import Callable, Mapping
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "ACTIVATIONS",
    "EPSILON",
    "LEAK",
    "bernoulli",
    "conv",
    "conv_transpose",
    "conv_weight_grad",
    "finish",
    "instance_norm",
    "linear",
    "margins",
    "neighbourhoods",
    "normalised",
    "same_conv",
    "squared_error",
    "unit",
]

LEAK = 0.2
EPSILON = 1e-5
"""Constant added to variances in normalisation."""
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": F.relu,
    "tanh": lambda x: x.tanh(),
    "leaky_relu": lambda x: F.leaky_relu(x, LEAK),
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
}


def unit(images: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert images to `dtype`; uint8 values are divided by 255."""
    return images.to(dtype) / 255 if images.dtype == torch.uint8 else images.to(dtype)


def linear(x: Tensor, weight: Tensor, bias: Tensor, activation: str = "none") -> Tensor:
    """Dense layer: `[M, B, I]`, `[M, I, O]`, `[M, O]` to `[M, B, O]`, then an activation."""
    return ACTIVATIONS[activation](torch.baddbmm(bias[:, None], unit(x, weight.dtype), weight))


def instance_norm(x: Tensor, both: Tensor | None, activation: str = "none") -> Tensor:
    """Normalise each channel of each image, compute γ n + β, and apply an activation.

    Args:
        x: Images `[M, B, H, W, C]`.
        both: γ and β, concatenated, `[M, B, 2 C]`; None for 1 and 0.
        activation: One of `ACTIVATIONS`.
    """
    result = normalised(x, (2, 3))
    if both is not None:
        scale, shift = both.to(result.dtype)[:, :, None, None].chunk(2, -1)
        result = torch.addcmul(shift, result, scale)
    return ACTIVATIONS[activation](result.to(x.dtype))


def normalised(x: Tensor, axes: tuple[int, ...], reference: int | None = None) -> Tensor:
    """(x - mean) / √(variance + ε) over some axes, in float32 or better.

    Mean and variance are those of the first `reference` inputs, or of all if it is None.
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
        large: Large images.
        small: Small images.
        kernel: Kernel size k.
        bias: Image that has a bias: `"small"` (result of a convolution) or `"large"` (result of
            its transpose). The second return value is its gradient, the sum over pixels.
    """
    gradient = torch.bmm(neighbourhoods(unit(large, small.dtype), kernel).mT, small.flatten(1, 3))
    summed = None if bias is None else (small if bias == "small" else large).sum((1, 2, 3))
    return gradient.unflatten(1, (kernel, kernel, large.shape[-1])), summed


def bernoulli(logits: Tensor, images: Tensor) -> Tensor:
    """-Σ [x log p + (1 - x) log(1 - p)], p = sigmoid(logits), `[M, B, H, W, C]` to `[M, B]`."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    losses = F.binary_cross_entropy_with_logits(
        logits, unit(images, logits.dtype), reduction="none"
    )
    return losses.flatten(2).sum(-1)


def squared_error(means: Tensor, images: Tensor) -> Tensor:
    """Σ (x - p)², `[M, B, H, W, C]` to `[M, B]`."""
    means = means.to(torch.promote_types(means.dtype, torch.float32))
    return (means - unit(images, means.dtype)).square().flatten(2).sum(-1)


def finish(image: Tensor, bias: Tensor | None, relu: bool, mask: Tensor | None) -> Tensor:
    """Optionally add a bias `[M, channels]`, apply a ReLU, and apply a mask."""
    if bias is not None:
        image = image + bias[:, None, None, None]
    image = image.relu() if relu else image
    return image if mask is None else torch.ops.aten.threshold_backward(image, mask, 0)


def same_conv(images: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`[M, B, H, W, C]` to `[M, B, H, W, O]`: stride-1 convolution with an odd kernel size."""
    models, batch, height, width, _ = images.shape
    # Models are groups of channels of one large image.
    stacked = unit(images, weight.dtype).permute(1, 0, 4, 2, 3).reshape(batch, -1, height, width)
    filters = weight.permute(0, 4, 3, 1, 2).flatten(0, 1)
    own_bias = None if bias is None else bias.flatten()
    large = F.conv2d(stacked, filters, own_bias, padding=weight.shape[1] // 2, groups=models)
    return large.unflatten(1, (models, -1)).permute(1, 0, 3, 4, 2)


def neighbourhoods(large: Tensor, kernel: int, stride: int = 2) -> Tensor:
    """Return the k × k neighbourhood of every small pixel, `[M, B * h * w, k * k * C]`."""
    models = len(large)
    before, after = margins(kernel, stride)
    wide = _wide(large)
    padded = F.pad(wide, (0, 0, before, after, before, after)) if after else wide
    windows = padded.unfold(2, kernel, stride).unfold(3, kernel, stride)
    columns = windows.permute(0, 1, 2, 3, 5, 6, 4).contiguous()
    return columns.view(large.dtype).view(models, -1, kernel * kernel * large.shape[-1])


def margins(kernel: int, stride: int = 2) -> tuple[int, int]:
    """Return the padding before and after the image."""
    before = (kernel - stride) // 2
    return before, kernel - stride - before


def _wide(image: Tensor) -> Tensor:
    """View memory as 16-byte numbers if the channels allow, which makes copies much faster."""
    image = image.contiguous()
    size = image.element_size()
    fits = image.shape[-1] * size % 16 == 0 and image.storage_offset() * size % 16 == 0
    return image.view(torch.complex128) if fits else image


def _transpose_by_phases(small: Tensor, weight: Tensor) -> Tensor:
    """Compute the transpose for 4 × 4 taps as one matrix product.

    Each of the 2 × 2 phases of the large image depends on 2 × 2 of the 3 × 3 neighbours of a small
    pixel: phase 0 uses taps 3, 1 of neighbours -1, 0; phase 1 uses taps 2, 0 of neighbours 0, 1.
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
    """Adjoint of `neighbourhoods`: add every neighbourhood back to its position."""
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
