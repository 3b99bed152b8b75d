"""Kernels with a model axis: what each computes is defined in `reference.py`.

A fast version for some device is chosen here, behind the same function, so that no layer or method
knows which one runs. The convolution kernels are closed under differentiation, hence
differentiable to any order.
"""

import os
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from unweave.kernels import cpu, reference
from unweave.kernels.dispatch import fused
from unweave.kernels.reference import unit

__all__ = ["FAST", "bernoulli", "conv", "conv_transpose", "instance_norm", "linear", "unit"]


SLOPES = {"relu": 0.0, "leaky_relu": reference.LEAK}
"""What activations that are a line on each side of 0 do to negative numbers."""
FAST = (2, 4)
"""The k of which there are k × k taps with kernels of their own on a GPU."""


def linear(x: Tensor, weight: Tensor, bias: Tensor, activation: str = "none") -> Tensor:
    """Dense layer, `[M, B, I]` to `[M, B, O]`.

    Args:
        x: The input; bytes stand for [0, 1].
        weight: `[M, I, O]`
        bias: `[M, O]`
        activation: Of `reference.ACTIVATIONS`.
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

    The gradient of a ReLU between two convolutions is taken by the second one while it writes,
    which saves a pass over the largest images of a network. Both must be told.

    Args:
        large: The images.
        weight: `[M, k, k, C, O]`
        bias: `[M, O]`
        relu: Whether to cut off what is negative.
        mask: The result is 0 where this is not positive.
        after_conv: `large` is the result of a function told `before_conv`.
        before_conv: The result goes into a function told `after_conv`, and nowhere else.
    """
    return _Conv.apply(large, weight, bias, relu, mask, after_conv, before_conv)


def conv_transpose(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
    after_conv: bool = False,
    before_conv: bool = False,
) -> Tensor:
    """Its transpose, `[M, B, h, w, O]` to `[M, B, 2h, 2w, C]`; arguments as of `conv`."""
    return _ConvTranspose.apply(small, weight, bias, relu, mask, after_conv, before_conv)


def bernoulli(logits: Tensor, images: Tensor) -> Tensor:
    """Negative log-likelihood of images in [0, 1] or bytes, `[M, B, H, W, C]` to `[M, B]`."""
    return (
        _Bernoulli.apply(logits, images) if fused(logits) else reference.bernoulli(logits, images)
    )


def instance_norm(x: Tensor, both: Tensor | None, activation: str) -> Tensor:
    """Normalise every channel of every image, adapt it, and apply an activation.

    Args:
        x: `[M, B, H, W, C]`
        both: What a channel is multiplied with, and then what is added to it, `[M, B, 2 C]`; None
            for 1 and 0.
        activation: Of `reference.ACTIVATIONS`.
    """
    if activation in SLOPES and fused(x):
        from unweave.kernels import gpu_norms

        return gpu_norms.instance_norm(x, both, activation, SLOPES[activation])
    return reference.instance_norm(x, both, activation)


def _version(tensor: Tensor, kernel: int | None = None) -> ModuleType:
    """The module whose kernels serve k × k taps; by default those of a weight `[M, k, k, …]`."""
    if tensor.device.type == "cpu" and os.environ.get("UNWEAVE_KERNELS") != "reference":
        return cpu
    if not fused(tensor):
        return reference
    if (kernel or tensor.shape[1]) in FAST:
        from unweave.kernels import gpu

        return gpu
    from unweave.kernels import gpu_odd

    return gpu_odd


class _Finish(torch.autograd.Function):
    """Bias and activation of a product, over which the result is written.

    The product itself stays outside: PyTorch leaves out gradients that nobody asked for, such as
    those of a discriminator's weights when it judges for the encoder, but not inside a function.
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


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        large: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        relu: bool,
        mask: Tensor | None,
        after_conv: bool,
        before_conv: bool,
    ) -> Tensor:
        small = _version(weight).conv(large, weight, bias, relu, mask)
        context.after_conv = after_conv
        context.save_for_backward(large, weight, small if relu and not before_conv else None, mask)
        return small

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        large, weight, small, mask = context.saved_tensors
        need_large, need_weight, need_bias, *_ = context.needs_input_grad
        gradient = _masked(_masked(gradient, small), mask)
        before = large if context.after_conv else None
        if need_large and need_weight and need_bias and not torch.is_grad_enabled():
            together = _version(weight).conv_backward(large, gradient, weight, before)
            return *together, *(None,) * 4
        seen = _Rectified.apply(large) if context.after_conv else large
        return (
            conv_transpose(gradient, weight, mask=before) if need_large else None,
            *_parameter_grads(seen, gradient, weight, need_weight, need_bias, "small"),
            *(None,) * 4,
        )


class _ConvTranspose(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        small: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        relu: bool,
        mask: Tensor | None,
        after_conv: bool,
        before_conv: bool,
    ) -> Tensor:
        large = _version(weight).conv_transpose(small, weight, bias, relu, mask)
        context.after_conv = after_conv
        context.save_for_backward(small, weight, large if relu and not before_conv else None, mask)
        return large

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        small, weight, large, mask = context.saved_tensors
        need_small, need_weight, need_bias, *_ = context.needs_input_grad
        gradient = _masked(_masked(gradient, large), mask)
        before = small if context.after_conv else None
        if need_small and need_weight and need_bias and not torch.is_grad_enabled():
            together = _version(weight).conv_transpose_backward(gradient, small, weight, before)
            return *together, *(None,) * 4
        seen = _Rectified.apply(small) if context.after_conv else small
        return (
            conv(gradient, weight, mask=before) if need_small else None,
            *_parameter_grads(gradient, seen, weight, need_weight, need_bias, "large"),
            *(None,) * 4,
        )


class _Rectified(torch.autograd.Function):
    """The result of a ReLU as it is; its gradient is stopped where the ReLU stops it."""

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


class _Bernoulli(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, logits: Tensor, images: Tensor) -> Tensor:
        from unweave.kernels import gpu_bernoulli

        context.save_for_backward(logits, images)
        return gpu_bernoulli.losses(logits, images)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from unweave.kernels import gpu_bernoulli

        logits, images = context.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate this again
            excess = logits.float().sigmoid() - unit(images, torch.float32)
            return (gradient[:, :, None, None, None] * excess).to(logits.dtype), None
        return gpu_bernoulli.gradients(logits, images, gradient), None


def _parameter_grads(
    large: Tensor, small: Tensor, weight: Tensor, need_weight: bool, need_bias: bool, bias: str
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of weight and bias, where they are needed."""
    if need_weight:
        kernel = weight.shape[1]
        return _WeightGrad.apply(large, small, kernel, bias if need_bias else None)
    summed = (small if bias == "small" else large).sum((1, 2, 3))
    return None, summed if need_bias else None


def _masked(gradient: Tensor, output: Tensor | None) -> Tensor:
    """The gradient before the ReLU whose output this is."""
    return gradient if output is None else torch.ops.aten.threshold_backward(gradient, output, 0)
