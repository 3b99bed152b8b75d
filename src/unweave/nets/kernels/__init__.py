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

from unweave.nets.kernels import cpu, reference

__all__ = ["conv", "conv_transpose", "linear"]


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`[M, B, I]` to `[M, B, O]`."""
    return reference.linear(x, weight, bias)


def conv(large: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """Stride-2 convolution, `[M, B, H, W, C]` to `[M, B, H/2, W/2, O]`."""
    return _Conv.apply(large, weight, bias, relu)


def conv_transpose(
    small: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False
) -> Tensor:
    """Its transpose, `[M, B, h, w, O]` to `[M, B, 2h, 2w, C]`."""
    return _ConvTranspose.apply(small, weight, bias, relu)


def _version(x: Tensor) -> ModuleType:
    """The module whose kernels serve this tensor; UNWEAVE_KERNELS=reference is the plain one."""
    if os.environ.get("UNWEAVE_KERNELS") == "reference" or x.device.type != "cpu":
        return reference
    return cpu


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, large: Tensor, weight: Tensor, bias: Tensor | None, relu: bool
    ) -> Tensor:
        small = _version(large).conv(large, weight, bias, relu)
        context.save_for_backward(large, weight, small if relu else None)
        return small

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        large, weight, small = context.saved_tensors
        need_large, need_weight, need_bias, _ = context.needs_input_grad
        gradient = _masked(gradient, small)
        return (
            conv_transpose(gradient, weight) if need_large else None,
            _WeightGrad.apply(large, gradient, weight.shape[1]) if need_weight else None,
            gradient.sum((1, 2, 3)) if need_bias else None,
            None,
        )


class _ConvTranspose(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, small: Tensor, weight: Tensor, bias: Tensor | None, relu: bool
    ) -> Tensor:
        large = _version(small).conv_transpose(small, weight, bias, relu)
        context.save_for_backward(small, weight, large if relu else None)
        return large

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        small, weight, large = context.saved_tensors
        need_small, need_weight, need_bias, _ = context.needs_input_grad
        gradient = _masked(gradient, large)
        return (
            conv(gradient, weight) if need_small else None,
            _WeightGrad.apply(gradient, small, weight.shape[1]) if need_weight else None,
            gradient.sum((1, 2, 3)) if need_bias else None,
            None,
        )


class _WeightGrad(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, large: Tensor, small: Tensor, kernel: int) -> Tensor:
        context.save_for_backward(large, small)
        return _version(large).conv_weight_grad(large, small, kernel)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        large, small = context.saved_tensors
        return conv_transpose(small, gradient), conv(large, gradient), None


def _masked(gradient: Tensor, output: Tensor | None) -> Tensor:
    """The gradient before the ReLU whose output this is."""
    return gradient if output is None else torch.ops.aten.threshold_backward(gradient, output, 0)
