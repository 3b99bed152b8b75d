"""Adam over stacked buffers: every model has its own rates, its own moments, the same step."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io.plain_data import is_number
from unweave.kernels.dispatch import fused
from unweave.text import shown

__all__ = ["Adam", "Moments", "update"]

VARIANTS = ("torch", "tensorflow")
TOO_LARGE = 1e18
"""A gradient beyond this counts as not finite: its square soon is not."""


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
        for name, below in {"lr": math.inf, "beta1": 1, "beta2": 1, "eps": math.inf}.items():
            value = getattr(self, name)
            if not isinstance(value, Tensor) and not (is_number(value) and 0 <= value < below):
                limit = "and finite" if below == math.inf else f"and below {below}"
                raise UnweaveError(
                    f"{name} of Adam must be at least 0 {limit}, but got {shown(value)}"
                )
        if self.variant not in VARIANTS:
            raise UnweaveError(
                f"variant must be one of {', '.join(VARIANTS)}, not {shown(self.variant)}"
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

    def rows(self, chosen: slice) -> Self:
        """Of a stacked optimiser, that of some models."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        rates: dict[str, Any] = {
            name: of[chosen] for name, of in values.items() if isinstance(of, Tensor)
        }
        return dataclasses.replace(self, **rates)

    def rates(self, step: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """What a stacked optimiser multiplies with at one step, counted from 0, `[M, 5]`.

        Size of the step, 1 - β₁, 1 - β₂, the factor on √v, and ε.
        """
        if fused(step):
            from unweave.kernels import gpu_adam

            stack: Any = self  # whose numbers are tensors
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
    """Take a step of Adam in place, for the models that are alive.

    Args:
        parameters: float32 `[M, P]`
        moments: Laid out as the parameters.
        gradients: Of parts of the parameters, `[M, n]` each.
        places: Where each part begins.
        rates: Of this step, `[M, 5]`.
        alive: bool `[M]`
        finite: bool `[M]`, becomes False for models with a gradient that is not finite; no
            parameter ever becomes so by it.
        working: Where to write a copy of the new parameters, in the precision to multiply with.
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
    """The same for one part; whose gradient is finite, `[M]`."""
    step, weight1, weight2, shrink, eps = rates.split(1, 1)
    gradient = gradient.to(parameters.dtype)
    finite = gradient.abs().amax(1) < TOO_LARGE
    first = torch.lerp(moments.first, gradient, weight1)
    second = torch.lerp(moments.second, gradient.square(), weight2)
    keep = (alive & finite)[:, None]
    moved = parameters - step * first / (second.sqrt() * shrink + eps)
    parameters.copy_(torch.where(keep, moved, parameters))
    moments.first.copy_(torch.where(keep, first, moments.first))
    moments.second.copy_(torch.where(keep, second, moments.second))
    return finite
