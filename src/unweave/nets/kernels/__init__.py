"""Kernels with a model axis: what each computes is defined in `reference.py`.

A fast version for some device is chosen here, behind the same function, so that no layer or method
knows which one runs. The three convolution kernels are closed under differentiation, hence
differentiable to any order.
"""

from typing import Any

import torch
from torch import Tensor

from unweave.nets.kernels import reference

__all__ = ["conv", "conv_transpose", "linear"]


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`[M, B, I]` to `[M, B, O]`."""
    return reference.linear(x, weight, bias)


def conv(large: Tensor, weight: Tensor) -> Tensor:
    """Stride-2 convolution, `[M, B, H, W, C]` to `[M, B, H/2, W/2, O]`."""
    return _Conv.apply(large, weight)


def conv_transpose(small: Tensor, weight: Tensor) -> Tensor:
    """Its transpose, `[M, B, h, w, O]` to `[M, B, 2h, 2w, C]`."""
    return _ConvTranspose.apply(small, weight)


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, large: Tensor, weight: Tensor) -> Tensor:
        context.save_for_backward(large, weight)
        return reference.conv(large, weight)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        large, weight = context.saved_tensors
        need_large, need_weight = context.needs_input_grad
        return (
            _ConvTranspose.apply(gradient, weight) if need_large else None,
            _WeightGrad.apply(large, gradient, weight.shape[1]) if need_weight else None,
        )


class _ConvTranspose(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, small: Tensor, weight: Tensor) -> Tensor:
        context.save_for_backward(small, weight)
        return reference.conv_transpose(small, weight)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        small, weight = context.saved_tensors
        need_small, need_weight = context.needs_input_grad
        return (
            _Conv.apply(gradient, weight) if need_small else None,
            _WeightGrad.apply(gradient, small, weight.shape[1]) if need_weight else None,
        )


class _WeightGrad(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, large: Tensor, small: Tensor, kernel: int) -> Tensor:
        context.save_for_backward(large, small)
        return reference.conv_weight_grad(large, small, kernel)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        large, small = context.saved_tensors
        return _ConvTranspose.apply(small, gradient), _Conv.apply(large, gradient), None
