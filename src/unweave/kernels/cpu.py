"""CPU kernels: one model and a few images at a time, channels last.

The split into tasks depends only on a model and its batch, and each task runs on one thread, so
results depend neither on the fleet nor on the number of threads.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from unweave.kernels import reference
from unweave.kernels.threads import run_all

__all__ = ["conv", "conv_transpose", "conv_weight_grad"]

IMAGES = 32
"""Number of images per task; with fewer, PyTorch's convolutions are slow."""
STRIDE, DILATION, NO_OUTPUT_PADDING = (2, 2), (1, 1), (0, 0)

OfOneModel = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""Convolution of images `[B, …, channels]` with weights `[k, k, C, O]` and an optional bias."""


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
    even = weight.shape[1] % 2 == 0
    of_one = partial(_library, F.conv2d) if even else partial(_plain, reference.conv)
    return _fill(small, of_one, large, weight, bias, relu, mask)


def conv_transpose(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """See `reference.conv_transpose`."""
    models, batch, height, width, _ = small.shape
    large = small.new_empty(models, batch, 2 * height, 2 * width, weight.shape[3])
    # PyTorch is slow for a single channel, and it does not support asymmetric padding.
    usual = weight.shape[1] % 2 == 0 and weight.shape[3] > 1
    by_library = partial(_library, F.conv_transpose2d)
    of_one = by_library if usual else partial(_plain, reference.conv_transpose)
    return _fill(large, of_one, small, weight, bias, relu, mask)


def conv_weight_grad(
    large: Tensor, small: Tensor, kernel: int, bias: str | None = None
) -> tuple[Tensor, Tensor | None]:
    """See `reference.conv_weight_grad`."""
    large = reference.unit(large, small.dtype)
    of_one = _library_weight_grad if kernel % 2 == 0 else reference.conv_weight_grad
    models = run_all(
        [
            partial(of_one, x, y, kernel, bias)
            for x, y in zip(large.split(1), small.split(1), strict=True)
        ]
    )
    gradients, sums = zip(*models, strict=True)
    return torch.cat(gradients), None if bias is None else torch.cat(sums)


def _fill(
    out: Tensor,
    of_one: OfOneModel,
    images: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    relu: bool,
    mask: Tensor | None,
) -> Tensor:
    """Apply a convolution to the images of each model and write the results into `out`."""

    def task(model: int, start: int) -> None:
        part = slice(start, start + IMAGES)
        own_bias = None if bias is None else bias[model]
        result = of_one(images[model, part], weight[model], own_bias)
        target = out[model, part]
        if relu:
            torch.clamp_min(result, 0, out=target)
        else:
            target.copy_(result)
        if mask is not None:
            torch.ops.aten.threshold_backward.grad_input(
                target, mask[model, part], 0, grad_input=target
            )

    starts = range(0, images.shape[1], IMAGES)
    run_all([partial(task, model, start) for model in range(len(out)) for start in starts])
    return out


def _library(
    function: Callable[..., Tensor], images: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    """Convolution of one model with PyTorch."""
    filters, padding = weight.permute(3, 2, 0, 1), _padding(len(weight))
    result = function(images.permute(0, 3, 1, 2), filters, bias, STRIDE, padding)
    return result.permute(0, 2, 3, 1)


def _plain(
    function: Callable[..., Tensor], images: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    """Convolution of one model with matrix products."""
    return function(images[None], weight[None], None if bias is None else bias[None])[0]


def _library_weight_grad(
    large: Tensor, small: Tensor, kernel: int, bias: str | None
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of one model's weights, `[1, k, k, C, O]`, and of its bias."""
    x, y = (images[0].permute(0, 3, 1, 2) for images in (large, small))
    _, gradient, _ = torch.ops.aten.convolution_backward(
        y,
        x,
        x.new_empty(small.shape[-1], large.shape[-1], kernel, kernel),
        None,
        STRIDE,
        _padding(kernel),
        DILATION,
        False,
        NO_OUTPUT_PADDING,
        1,
        (False, True, False),
    )
    summed = None if bias is None else (small if bias == "small" else large).sum((1, 2, 3))
    return gradient.permute(2, 3, 1, 0)[None], summed


def _padding(kernel: int) -> tuple[int, int]:
    return (kernel - 2) // 2, (kernel - 2) // 2
