"""Adam over stacked buffers: every model has its own rates, its own moments, the same step."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from unweave.errors import UnweaveError

__all__ = ["Adam", "Moments"]

VARIANTS = ("torch", "tensorflow")


@dataclass(frozen=True, eq=False)
class Moments:
    """The running means of gradients and of their squares, `[M, P]` each."""

    first: Tensor
    second: Tensor

    @classmethod
    def zeros_like(cls, parameters: Tensor) -> "Moments":
        """Moments before the first step."""
        return cls(torch.zeros_like(parameters), torch.zeros_like(parameters))


@dataclass(frozen=True, kw_only=True)
class Adam:
    """The Adam optimiser.

        m ← β₁ m + (1 - β₁) g,    v ← β₂ v + (1 - β₂) g²,    g the gradient, t from 1
        torch       θ ← θ - lr · m̂ / (√v̂ + ε),   m̂ = m / (1 - β₁ᵗ),  v̂ = v / (1 - β₂ᵗ)
        tensorflow  θ ← θ - lr · √(1 - β₂ᵗ) / (1 - β₁ᵗ) · m / (√v + ε)

    The two differ in what ε is added to, which matters while v is small.

    References:
        Kingma & Ba, Adam: A Method for Stochastic Optimization, arXiv:1412.6980.
    """

    lr: float = 1e-4
    """Learning rate."""
    beta1: float = 0.9
    """Decay of the mean of gradients."""
    beta2: float = 0.999
    """Decay of the mean of squared gradients."""
    eps: float = 1e-8
    """Added to the root of the mean square."""
    variant: str = "torch"
    """Where eps is added: as in torch, or as in TensorFlow 1."""

    def __post_init__(self) -> None:
        if isinstance(self.lr, float | int) and not self.lr >= 0:
            raise UnweaveError(f"the learning rate must not be negative, but got {self.lr}")
        if self.variant not in VARIANTS:
            raise UnweaveError(
                f"variant must be one of {', '.join(VARIANTS)}, not {self.variant!r}"
            )

    @classmethod
    def stack(cls, optimisers: Sequence[Self], device: torch.device | str = "cpu") -> Self:
        """One optimiser whose rates are those of several, `[M, 1]` each."""
        stacked: dict[str, Any] = {
            field.name: torch.tensor(
                [[getattr(optimiser, field.name)] for optimiser in optimisers],
                dtype=torch.float64,
                device=device,
            )
            for field in dataclasses.fields(cls)
            if field.type in (float, "float")
        }
        if len({optimiser.variant for optimiser in optimisers}) > 1:
            raise UnweaveError("models of one fleet must share the variant of Adam")
        return dataclasses.replace(optimisers[0], **stacked)

    def update(
        self, parameters: Tensor, moments: Moments, gradient: Tensor, step: Tensor, alive: Tensor
    ) -> None:
        """Take a step in place, where `alive [M]`; `step` counts from 0."""
        beta1, beta2 = self.beta1, self.beta2
        correction1, correction2 = 1 - beta1 ** (step + 1), 1 - beta2 ** (step + 1)
        rate, shrink = self.lr / correction1, correction2**-0.5
        if self.variant == "tensorflow":
            rate, shrink = rate / shrink, torch.ones_like(shrink)
        first = torch.lerp(moments.first, gradient, _like(1 - beta1, gradient))
        second = torch.lerp(moments.second, gradient.square(), _like(1 - beta2, gradient))
        size = second.sqrt() * _like(shrink, gradient) + _like(self.eps, gradient)
        update = _like(rate, gradient) * first / size
        keep = alive[:, None]
        parameters.copy_(torch.where(keep, parameters - update, parameters))
        moments.first.copy_(torch.where(keep, first, moments.first))
        moments.second.copy_(torch.where(keep, second, moments.second))


def _like(value: Any, gradient: Tensor) -> Any:
    return value.to(gradient.dtype) if isinstance(value, Tensor) else value
