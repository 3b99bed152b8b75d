"""The kernels on a CPU: model by model, by the library's own convolutions, channels last.

One model's convolution is enough work for all cores, so nothing is lost by taking turns, and a
model's numbers cannot depend on its fleet.
"""

import sys
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from unweave.kernels import reference

__all__ = [
    "conv",
    "conv_backward",
    "conv_transpose",
    "conv_transpose_backward",
    "conv_weight_grad",
]

_here = sys.modules[__name__]
STRIDE, DILATION, NO_OUTPUT_PADDING = (2, 2), (1, 1), (0, 0)


def conv(
    large: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """See `reference.conv`."""
    large = reference.unit(large, weight.dtype)
    models, batch, height, width, _ = large.shape
    small = large.new_empty(models, batch, height // 2, width // 2, weight.shape[4])
    return _fill(small, F.conv2d, large, weight, bias, relu, mask)


def conv_transpose(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """See `reference.conv_transpose`."""
    if weight.shape[3] == 1:  # the library is slow at a single channel
        return reference.conv_transpose(small, weight, bias, relu, mask)
    models, batch, height, width, _ = small.shape
    large = small.new_empty(models, batch, 2 * height, 2 * width, weight.shape[3])
    return _fill(large, F.conv_transpose2d, small, weight, bias, relu, mask)


def conv_weight_grad(
    large: Tensor, small: Tensor, kernel: int, bias: str | None = None
) -> tuple[Tensor, Tensor | None]:
    """See `reference.conv_weight_grad`."""
    large = reference.unit(large, small.dtype)
    padding = _padding(kernel)
    shape = large.new_empty(small.shape[-1], large.shape[-1], kernel, kernel)
    gradients = []
    for x, y in zip(_images(large), _images(small), strict=True):
        _, gradient, _ = torch.ops.aten.convolution_backward(
            y,
            x,
            shape,
            None,
            STRIDE,
            padding,
            DILATION,
            False,
            NO_OUTPUT_PADDING,
            1,
            (False, True, False),
        )
        gradients.append(gradient.permute(2, 3, 1, 0))
    summed = None if bias is None else (small if bias == "small" else large).sum((1, 2, 3))
    return torch.stack(gradients), summed


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


def _padding(kernel: int) -> tuple[int, int]:
    return (kernel - 2) // 2, (kernel - 2) // 2


def _images(batch: Tensor) -> list[Tensor]:
    """`[M, B, H, W, C]` as one `[B, C, H, W]` per model."""
    return list(batch.permute(0, 1, 4, 2, 3).unbind())


def _filters(weight: Tensor) -> list[Tensor]:
    """`[M, k, k, C, O]` as one `[O, C, k, k]` per model."""
    return list(weight.permute(0, 4, 3, 1, 2).unbind())


def _fill(
    out: Tensor,
    function: Callable[..., Tensor],
    images: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    relu: bool,
    mask: Tensor | None,
) -> Tensor:
    """Apply a convolution to the images of each model, straight into its part of `out`."""
    padding = _padding(weight.shape[1])
    biases = [None] * len(out) if bias is None else list(bias.unbind())
    models = zip(_images(out), _images(images), _filters(weight), biases, strict=True)
    for place, x, w, b in models:
        y = function(x, w, b, STRIDE, padding)
        if relu:
            torch.clamp_min(y, 0, out=place)
        else:
            place.copy_(y)
    return out if mask is None else torch.ops.aten.threshold_backward(out, mask, 0)
