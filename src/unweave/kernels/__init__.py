"""Kernels with a model axis; `reference.py` defines what each of them computes.

The functions here choose the fastest version for a device, so that layers and methods do not
depend on it. The convolution kernels are closed under differentiation, hence differentiable to any
order.
"""

import os
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from unweave.kernels import cpu, reference
from unweave.kernels.reference import unit
from unweave.kernels.threads import run_all

__all__ = [
    "FAST",
    "WIDEST",
    "backward",
    "bernoulli",
    "conv",
    "conv_transpose",
    "fused",
    "instance_norm",
    "linear",
    "squared_error",
    "unit",
]

SLOPES = {"relu": 0.0, "leaky_relu": reference.LEAK}
"""Slopes of piecewise linear activations below 0."""
FAST = (2, 4)
"""Convolution sizes k that have specialised kernels on a GPU."""
WIDEST = 64
"""Largest number of channels of large images for which these kernels are used."""


def fused(x: Tensor) -> bool:
    """Return whether to use GPU kernels for a tensor; UNWEAVE_KERNELS=reference disables them."""
    return (
        x.device.type == "cuda"
        and x.dtype != torch.float64
        and os.environ.get("UNWEAVE_KERNELS") != "reference"
        and find_spec("triton") is not None
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor, activation: str = "none") -> Tensor:
    """Dense layer, `[M, B, I]` to `[M, B, O]`.

    Args:
        x: Input; uint8 values are divided by 255.
        weight: Weights `[M, I, O]`.
        bias: Biases `[M, O]`.
        activation: One of `reference.ACTIVATIONS`.
    """
    if activation in SLOPES and fused(weight):
        return _Finish.apply(torch.bmm(unit(x, weight.dtype), weight), bias, SLOPES[activation])
    return reference.linear(x, weight, bias, activation)


def conv(
    large: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
    after_conv: bool = False,
    before_conv: bool = False,
) -> Tensor:
    """Stride-2 convolution, `[M, B, H, W, C]` to `[M, B, H/2, W/2, O]`.

    The gradient of a ReLU between two convolutions is computed by the second one, which saves a
    pass over the largest images of a network. Both need the respective flag.

    Args:
        large: Images.
        weight: Weights `[M, k, k, C, O]`.
        bias: Biases `[M, O]`.
        relu: Whether to apply a ReLU.
        mask: Tensor of the result's shape; the result is 0 where it is not positive.
        after_conv: Whether `large` is the result of a call with `before_conv`.
        before_conv: Whether the result is used only by a call with `after_conv`.
    """
    return _Convolution.apply(large, weight, bias, relu, mask, after_conv, before_conv, False)


def conv_transpose(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
    after_conv: bool = False,
    before_conv: bool = False,
) -> Tensor:
    """Transpose of `conv`, `[M, B, h, w, O]` to `[M, B, 2h, 2w, C]`, with the same arguments."""
    return _Convolution.apply(small, weight, bias, relu, mask, after_conv, before_conv, True)


def backward(
    version: ModuleType,
    images: Tensor,
    gradient: Tensor,
    weight: Tensor,
    mask: Tensor | None = None,
    transposed: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of a convolution's images (masked), weight and bias.

    Args:
        version: Module whose kernels are used.
        images: Input of the convolution.
        gradient: Gradient of its result.
        weight: Weights `[M, k, k, C, O]`.
        mask: Tensor of the images' shape; their gradient is 0 where it is not positive.
        transposed: Whether the convolution is a transposed one.
    """
    if transposed and hasattr(version, "conv_transpose_backward"):
        fused_gradients = version.conv_transpose_backward(gradient, images, weight, mask)
        if fused_gradients is not None:
            return fused_gradients
    back = version.conv if transposed else version.conv_transpose
    pair, result = ((gradient, images), "large") if transposed else ((images, gradient), "small")
    tasks: list[Any] = [
        partial(version.conv_weight_grad, *pair, weight.shape[1], result),
        partial(back, gradient, weight, mask=mask),
    ]
    parts = run_all(tasks) if version is cpu else [task() for task in tasks]
    (of_weight, of_bias), of_images = parts
    return of_images, of_weight, of_bias


def bernoulli(logits: Tensor, images: Tensor) -> Tensor:
    """Negative log-likelihood of images, `[M, B, H, W, C]` to `[M, B]`."""
    if fused(logits):
        return _Likelihood.apply(logits, images, False)
    return reference.bernoulli(logits, images)


def squared_error(means: Tensor, images: Tensor) -> Tensor:
    """Sum of squared differences between means and images, `[M, B, H, W, C]` to `[M, B]`."""
    if fused(means) and not images.requires_grad:
        return _Likelihood.apply(means, images, True)
    return reference.squared_error(means, images)


def instance_norm(x: Tensor, both: Tensor | None, activation: str) -> Tensor:
    """Normalise each channel of each image, scale and shift it, and apply an activation.

    Args:
        x: Images `[M, B, H, W, C]`.
        both: Scale and shift of each channel, concatenated, `[M, B, 2 C]`; None for 1 and 0.
        activation: One of `reference.ACTIVATIONS`.
    """
    if activation in SLOPES and fused(x):
        from unweave.kernels import gpu_norms

        return gpu_norms.instance_norm(x, both, activation, SLOPES[activation])
    return reference.instance_norm(x, both, activation)


def _version(tensor: Tensor, kernel: int | None = None) -> ModuleType:
    """Return the module with kernels for k × k convolutions; k is that of a weight by default."""
    if tensor.device.type == "cpu" and os.environ.get("UNWEAVE_KERNELS") != "reference":
        return cpu
    if not fused(tensor):
        return reference
    if (kernel or tensor.shape[1]) in FAST and (kernel or tensor.shape[3] <= WIDEST):
        from unweave.kernels import gpu_conv

        return gpu_conv
    from unweave.kernels import gpu_conv_odd

    return gpu_conv_odd


class _Finish(torch.autograd.Function):
    """Add a bias to a matrix product and apply an activation, in place.

    The product itself is not part of this function, so that PyTorch can skip unneeded gradients,
    such as those of a discriminator's weights in the loss of the encoder.
    """

    @staticmethod
    def forward(context: Any, y: Tensor, bias: Tensor, slope: float) -> Tensor:
        from unweave.kernels import gpu_dense

        gpu_dense.finish(y, bias, slope)
        context.mark_dirty(y)
        context.slope = slope
        context.save_for_backward(y)
        return y

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (y,) = context.saved_tensors
        gradient = torch.ops.aten.leaky_relu_backward(gradient, y, context.slope, True)
        return gradient, gradient.sum(1), None


class _Convolution(torch.autograd.Function):
    """A convolution from large images to small ones, or its transpose."""

    @staticmethod
    def forward(
        context: Any,
        images: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        relu: bool,
        mask: Tensor | None,
        after_conv: bool,
        before_conv: bool,
        transposed: bool,
    ) -> Tensor:
        version = _version(weight)
        function = version.conv_transpose if transposed else version.conv
        result = function(images, weight, bias, relu, mask)
        context.after_conv, context.transposed = after_conv, transposed
        masked_by = result if relu and not before_conv else None
        context.save_for_backward(images, weight, masked_by, mask)
        return result

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images, weight, result, mask = context.saved_tensors
        need_images, need_weight, need_bias, *_ = context.needs_input_grad
        transposed, nothing = context.transposed, (None,) * 5
        gradient = _masked(_masked(gradient, result), mask)
        before = images if context.after_conv else None
        if need_images and need_weight and need_bias and not torch.is_grad_enabled():
            version = _version(weight)
            return *backward(version, images, gradient, weight, before, transposed), *nothing
        back = conv if transposed else conv_transpose
        of_images = back(gradient, weight, mask=before) if need_images else None
        inputs = _Rectified.apply(images) if context.after_conv else images
        large, small = (gradient, inputs) if transposed else (inputs, gradient)
        of_weight = of_bias = None
        if need_weight:
            own = "large" if transposed else "small"
            bias = own if need_bias else None
            of_weight, of_bias = _WeightGrad.apply(large, small, weight.shape[1], bias)
        elif need_bias:
            of_bias = gradient.sum((1, 2, 3))
        return of_images, of_weight, of_bias, *nothing


class _Rectified(torch.autograd.Function):
    """Identity for the result of a ReLU; its gradient is masked like that of the ReLU."""

    @staticmethod
    def forward(context: Any, image: Tensor) -> Tensor:
        context.save_for_backward(image)
        return image.view_as(image)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return _masked(gradient, context.saved_tensors[0])


class _WeightGrad(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, large: Tensor, small: Tensor, kernel: int, bias: str | None
    ) -> tuple[Tensor, Tensor | None]:
        context.bias = bias
        context.save_for_backward(large, small)
        return _version(small, kernel).conv_weight_grad(large, small, kernel, bias)

    @staticmethod
    def backward(
        context: Any, gradient: Tensor, bias_gradient: Tensor | None = None
    ) -> tuple[Tensor | None, ...]:
        large, small = context.saved_tensors
        of_large = bias_gradient if context.bias == "large" else None
        of_small = bias_gradient if context.bias == "small" else None
        need_large, need_small, *_ = context.needs_input_grad
        return (
            conv_transpose(small, gradient, of_large) if need_large else None,
            conv(large, gradient, of_small) if need_small else None,
            None,
            None,
        )


class _Likelihood(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, outputs: Tensor, images: Tensor, squared: bool) -> Tensor:
        from unweave.kernels import gpu_likelihoods

        context.save_for_backward(outputs, images)
        context.squared = squared
        return gpu_likelihoods.losses(outputs, images, squared)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from unweave.kernels import gpu_likelihoods

        (outputs, images), squared = context.saved_tensors, context.squared
        if torch.is_grad_enabled():  # for second derivatives
            values = outputs.float() if squared else outputs.float().sigmoid()
            excess = (1 + squared) * (values - unit(images, torch.float32))
            return (gradient[:, :, None, None, None] * excess).to(outputs.dtype), None, None
        return gpu_likelihoods.gradients(outputs, images, gradient, squared), None, None


def _masked(gradient: Tensor, output: Tensor | None) -> Tensor:
    """Propagate a gradient through a ReLU, given its output."""
    return gradient if output is None else torch.ops.aten.threshold_backward(gradient, output, 0)
