"""Adam for stacked buffers: models share the step but have their own rates and moments."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io.plain_data import is_number
from unweave.kernels import fused
from unweave.text import shown

__all__ = ["Adam", "Moments", "update"]

VARIANTS = ("torch", "tensorflow")
TOO_LARGE = 1e18
"""Gradients of this size count as non-finite, since their squares may overflow."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Running means of gradients and of squared gradients, `[M, P]` each."""

    first: Tensor
    second: Tensor

    @classmethod
    def zeros_like(cls, parameters: Tensor) -> "Moments":
        """Return moments before the first step."""
        return cls(torch.zeros_like(parameters), torch.zeros_like(parameters))


@dataclass(frozen=True, kw_only=True)
class Adam:
    """The Adam optimiser.

        m ← β₁ m + (1 - β₁) g,    v ← β₂ v + (1 - β₂) g²,    g the gradient, t from 1
        torch       θ ← θ - lr · m̂ / (√v̂ + ε),   m̂ = m / (1 - β₁ᵗ),  v̂ = v / (1 - β₂ᵗ)
        tensorflow  θ ← θ - lr · √(1 - β₂ᵗ) / (1 - β₁ᵗ) · m / (√v + ε)

    The variants differ in where ε is added, which matters while v is small.

    References:
        Kingma & Ba, Adam: A Method for Stochastic Optimization, arXiv:1412.6980.
    """

    lr: float = 1e-4
    """Learning rate."""
    beta1: float = 0.9
    """Decay rate of the mean of gradients."""
    beta2: float = 0.999
    """Decay rate of the mean of squared gradients."""
    eps: float = 1e-8
    """Constant added to the denominator."""
    variant: str = "torch"
    """Where eps is added: as in `"torch"`, or as in `"tensorflow"` 1."""

    def __post_init__(self) -> None:
        for name, below in {"lr": math.inf, "beta1": 1, "beta2": 1, "eps": math.inf}.items():
            value = getattr(self, name)
            if not isinstance(value, Tensor) and not (is_number(value) and 0 <= value < below):
                limit = "and finite" if below == math.inf else f"and below {below}"
                raise UnweaveError(
                    f"{name} of Adam must be at least 0 {limit}, got {shown(value)}",
                    subject=name,
                )
        if self.variant not in VARIANTS:
            raise UnweaveError(
                f"variant must be one of {', '.join(VARIANTS)}, got {shown(self.variant)}",
                subject="variant",
                value=self.variant,
            )

    @classmethod
    def stack(cls, optimisers: Sequence[Self], device: torch.device | str = "cpu") -> Self:
        """Combine M optimisers into one with rates `[M, 1]`."""
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
            raise UnweaveError(
                "variant of Adam must be the same for all models of a fleet; train one fleet per "
                "variant",
                subject="variant",
            )
        return dataclasses.replace(optimisers[0], **stacked)

    def rows(self, chosen: slice) -> Self:
        """Return the part of a stacked optimiser for some models."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        part: dict[str, Any] = {
            name: value[chosen] for name, value in values.items() if isinstance(value, Tensor)
        }
        return dataclasses.replace(self, **part)

    def rates(self, step: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the coefficients of a stacked optimiser at one step, counted from 0, `[M, 5]`.

        These are the step size, 1 - β₁, 1 - β₂, the factor of √v, and ε.
        """
        if fused(step):
            from unweave.kernels import gpu_adam

            stack: Any = self  # with tensors as fields
            constants = (stack.lr, stack.beta1, stack.beta2, stack.eps)
            return gpu_adam.rates(*constants, step, self.variant == "tensorflow", dtype)
        correction1, correction2 = 1 - self.beta1 ** (step + 1), 1 - self.beta2 ** (step + 1)
        rate, shrink = self.lr / correction1, correction2**-0.5
        if self.variant == "tensorflow":
            rate, shrink = rate / shrink, torch.ones_like(shrink)
        values = (rate, 1 - self.beta1, 1 - self.beta2, shrink, self.eps)
        return torch.cat([torch.as_tensor(value) for value in values], 1).to(dtype)


def update(
    parameters: Tensor,
    moments: Moments,
    gradients: Sequence[Tensor],
    places: Sequence[int],
    rates: Tensor,
    alive: Tensor,
    finite: Tensor,
    working: Tensor | None = None,
) -> None:
    """Update the models that are alive by one step of Adam, in place.

    Args:
        parameters: Parameters, float32 `[M, P]`.
        moments: Moments with the layout of the parameters.
        gradients: Gradients of parts of the parameters, `[M, n]` each.
        places: Offset of each part in a row.
        rates: Coefficients of this step, `[M, 5]`.
        alive: Models in training, bool `[M]`.
        finite: Models with finite gradients, bool `[M]`; set to False in place for the others,
            whose parameters are not updated.
        working: Copy of the parameters in the precision of matrix multiplications, also updated.
    """
    if fused(parameters):
        from unweave.kernels import gpu_adam

        first, second = moments.first, moments.second
        copy = parameters if working is None else working
        gpu_adam.update(parameters, first, second, gradients, places, copy, rates, alive, finite)
        return
    for gradient, place in zip(gradients, places, strict=True):
        part = slice(place, place + gradient.shape[1])
        own = Moments(moments.first[:, part], moments.second[:, part])
        finite &= _update_part(parameters[:, part], own, gradient, rates, alive)
    if working is not None:
        working.copy_(parameters)


def _update_part(
    parameters: Tensor, moments: Moments, gradient: Tensor, rates: Tensor, alive: Tensor
) -> Tensor:
    """Update one part; return which models have a finite gradient, `[M]`."""
    step, weight1, weight2, shrink, eps = rates.split(1, 1)
    gradient = gradient.to(parameters.dtype)
    finite = gradient.abs().amax(1) < TOO_LARGE
    first = torch.lerp(moments.first, gradient, weight1)
    second = torch.lerp(moments.second, gradient.square(), weight2)
    active = (alive & finite)[:, None]
    updated = parameters - step * first / (second.sqrt() * shrink + eps)
    parameters.copy_(torch.where(active, updated, parameters))
    moments.first.copy_(torch.where(active, first, moments.first))
    moments.second.copy_(torch.where(active, second, moments.second))
    return finite
