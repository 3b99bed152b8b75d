"""Adam for stacked buffers: models share the step but have their own rates and moments."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io.plain_data import is_number
from unweave.kernels import fused
from unweave.text import shown

__all__ = ["Adam", "Moments", "StackedAdam", "update"]

VARIANTS = ("torch", "tensorflow")
SCHEDULES = ("constant", "cosine", "step")
TINY = 1e-6
"""Added to the norm before dividing by it, as in `torch.nn.utils.clip_grad_norm_`."""
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
    """The Adam optimiser, with decoupled weight decay (AdamW), clipping, a schedule and averaging.

        m ← β₁ m + (1 - β₁) g,    v ← β₂ v + (1 - β₂) g²,    g the clipped gradient, t from 1
        torch       θ ← θ - lrₜ λ θ - lrₜ m̂ / (√v̂ + ε),   m̂ = m / (1 - β₁ᵗ),  v̂ = v / (1 - β₂ᵗ)
        tensorflow  θ ← θ - lrₜ λ θ - lrₜ √(1 - β₂ᵗ) / (1 - β₁ᵗ) · m / (√v + ε)

    with weight decay λ and the learning rate lrₜ = lr · min(1, t / warm_up) · s(t), where over T
    steps of training

        constant    s(t) = 1
        cosine      s(t) = lr_floor + (1 - lr_floor) · (1 + cos(π (t - 1) / T)) / 2
        step        s(t) = decay_factor^⌊(t - 1) / decay_every⌋

    The variants differ in where ε is added, which matters while v is small. Gradients are clipped
    by their norm first, then element by element. Weight decay and element-wise clipping apply to
    weights, gains and learned maps only (`StackedNetwork.limited`), not to biases and other
    offsets. With `ema`, the trained model has the average

        θ̄ ← ema θ̄ + (1 - ema) θ,    θ̄ = θ after the first step

    of the weights; training itself is unchanged.

    References:
        Kingma & Ba, Adam: A Method for Stochastic Optimization, arXiv:1412.6980.
        Loshchilov & Hutter, Decoupled Weight Decay Regularization, arXiv:1711.05101.

    Example:
        >>> adam = Adam(lr=1e-3, schedule="step", decay_every=100, decay_factor=0.5)
        >>> adam.learning_rates([0, 99, 100, 250])
        [0.001, 0.001, 0.0005, 0.00025]
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
    weight_decay: float = 0.0
    """Decoupled weight decay λ, as in AdamW."""
    clip: float = 0.0
    """Largest absolute value of an element of the gradient; 0 turns clipping off."""
    clip_norm: float = 0.0
    """Largest norm of the gradient of all parameters of a model; 0 turns clipping off."""
    schedule: str = "constant"
    """Schedule of the learning rate: `"constant"`, `"cosine"` or `"step"`."""
    warm_up: int = 0
    """Number of steps over which the learning rate rises linearly."""
    lr_floor: float = 0.0
    """Learning rate at the end of a cosine schedule, as a fraction of `lr`."""
    decay_every: int = 0
    """Number of steps between decays of a step schedule."""
    decay_factor: float = 0.1
    """Factor of each decay of a step schedule."""
    ema: float = 0.0
    """Decay rate of the moving average of weights; 0 turns averaging off."""

    def __post_init__(self) -> None:
        for name, below in LIMITS.items():
            value = getattr(self, name)
            if not (is_number(value) and 0 <= value < below):
                limit = "and finite" if below == math.inf else f"and below {below}"
                raise UnweaveError(
                    f"{name} of Adam must be at least 0 {limit}, got {shown(value)}",
                    subject=name,
                    value=value,
                )
        for name, valid in {"variant": VARIANTS, "schedule": SCHEDULES}.items():
            value = getattr(self, name)
            if value not in valid:
                raise UnweaveError(
                    f"{name} must be one of {', '.join(valid)}, got {shown(value)}",
                    subject=name,
                    value=value,
                )
        for name in ("warm_up", "decay_every"):
            if not isinstance(getattr(self, name), int):
                raise UnweaveError(
                    f"{name} of Adam must be an integer, got {shown(getattr(self, name))}",
                    subject=name,
                    value=getattr(self, name),
                )
        for name in ("lr_floor", "decay_factor"):
            if getattr(self, name) > 1:
                raise UnweaveError(
                    f"{name} of Adam must be at most 1, got {getattr(self, name):g}",
                    subject=name,
                    value=getattr(self, name),
                )
        if self.schedule == "step" and self.decay_every == 0:
            raise UnweaveError(
                'decay_every must be at least 1 with schedule="step", got 0',
                subject="decay_every",
                value=self.decay_every,
            )

    def to_dict(self) -> dict[str, float | int | str]:
        """Return the settings as plain data; those added after version 0.1 only if they are set.

        Configs without the later settings therefore keep their hashes.
        """
        return {
            field.name: float(value) if field.type in (float, "float") else value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default or field.name in FIRST_FIELDS
        }

    def learning_rates(self, steps: Sequence[int], total: int = 0) -> list[float]:
        """Return the learning rate at some steps, counted from 0, of `total` steps of training."""
        stack = StackedAdam.of([self], "cpu", total)
        return [float(stack.learning_rate(torch.tensor(step))) for step in steps]


LIMITS: Mapping[str, float] = {
    **dict.fromkeys(("lr", "eps", "weight_decay", "clip", "clip_norm", "warm_up"), math.inf),
    **dict.fromkeys(("beta1", "beta2", "ema"), 1),
    **dict.fromkeys(("lr_floor", "decay_every", "decay_factor"), math.inf),
}
"""Numbers of Adam, each of which must be at least 0 and below its limit."""
FIRST_FIELDS = ("lr", "beta1", "beta2", "eps", "variant")
"""Settings that every saved config contains."""
SHARED_FIELDS = ("variant", "schedule")
"""Settings that all models of a fleet share."""


@dataclass(frozen=True, eq=False)
class StackedAdam:
    """The optimisers of M models.

    Args:
        values: Numeric settings by name, float64 `[M, 1]`.
        variant: Variant of Adam.
        schedule: Schedule of the learning rate.
        steps: Total number of training steps, for schedules that depend on it.
        scheduled: Whether any learning rate changes.
        limited: Whether any model has weight decay or clipping.
        clips_norm: Whether any model clips by norm.
    """

    values: Mapping[str, Tensor]
    variant: str
    schedule: str
    steps: int
    scheduled: bool
    limited: bool
    clips_norm: bool

    @classmethod
    def of(
        cls, optimisers: Sequence[Adam], device: torch.device | str = "cpu", steps: int = 0
    ) -> "StackedAdam":
        """Combine the optimisers of M models that are trained for a number of steps."""
        for name in SHARED_FIELDS:
            if len({getattr(optimiser, name) for optimiser in optimisers}) > 1:
                raise UnweaveError(
                    f"{name} of Adam must be the same for all models of a fleet; train one fleet "
                    f"per {name}",
                    subject=name,
                )
        numbers = {name: [getattr(each, name) for each in optimisers] for name in LIMITS}
        values = {
            name: torch.tensor(column, dtype=torch.float64, device=device)[:, None]
            for name, column in numbers.items()
        }
        schedule = optimisers[0].schedule
        return cls(
            values,
            optimisers[0].variant,
            schedule,
            steps,
            scheduled=schedule != "constant" or any(numbers["warm_up"]),
            limited=any(any(numbers[name]) for name in ("weight_decay", "clip", "clip_norm")),
            clips_norm=any(numbers["clip_norm"]),
        )

    def rows(self, chosen: slice) -> "StackedAdam":
        """Return the optimisers of some models."""
        values = {name: value[chosen] for name, value in self.values.items()}
        return dataclasses.replace(self, values=values)

    def learning_rate(self, step: Tensor) -> Tensor:
        """Return the learning rate at one step, counted from 0, `[M, 1]`."""
        rate = self.values["lr"]
        if not self.scheduled:
            return rate
        rate = rate * ((step + 1) / self.values["warm_up"].clamp(min=1)).clamp(max=1)
        if self.schedule == "cosine":
            floor, done = self.values["lr_floor"], (step / max(self.steps, 1)).clamp(max=1)
            rate = rate * (floor + (1 - floor) * (1 + torch.cos(math.pi * done)) / 2)
        if self.schedule == "step":
            decays = torch.floor(step / self.values["decay_every"].clamp(min=1))
            rate = rate * self.values["decay_factor"] ** decays
        return rate

    def rates(self, step: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the coefficients of one step, counted from 0, `[M, 5]`.

        These are the step size, 1 - β₁, 1 - β₂, the factor of √v, and ε.
        """
        rate, (beta1, beta2, eps) = (
            self.learning_rate(step),
            (self.values[name] for name in ("beta1", "beta2", "eps")),
        )
        if fused(step):
            from unweave.kernels import gpu_adam

            return gpu_adam.rates(
                rate, beta1, beta2, eps, step, self.variant == "tensorflow", dtype
            )
        correction1, correction2 = 1 - beta1 ** (step + 1), 1 - beta2 ** (step + 1)
        rate, shrink = rate / correction1, correction2**-0.5
        if self.variant == "tensorflow":
            rate, shrink = rate / shrink, torch.ones_like(shrink)
        return torch.cat((rate, 1 - beta1, 1 - beta2, shrink, eps), 1).to(dtype)

    def limits(self, step: Tensor, gradients: Sequence[Tensor]) -> Tensor | None:
        """Return the coefficients of weight decay and clipping, float32 `[M, 3]`; None if unused.

        These are the fraction of the parameters that decays, the factor of the gradient, and the
        largest element after scaling.
        """
        if not self.limited:
            return None
        decay = self.learning_rate(step) * self.values["weight_decay"]
        clip, most = self.values["clip"], self.values["clip_norm"]
        factor = torch.ones_like(most)
        if self.clips_norm:
            squares = [part.double().square().sum(1, keepdim=True) for part in gradients]
            norm = torch.stack(squares).sum(0).sqrt()
            # Other parts of a gradient that is not finite must not become NaN.
            clipped = (most > 0) & norm.isfinite()
            factor = torch.where(clipped, (most / (norm + TINY)).clamp(max=1), factor)
        largest = torch.where(clip > 0, clip, math.inf)
        return torch.cat((decay, factor, largest), 1).float()

    def average(self, averages: Tensor, parameters: Tensor, step: Tensor, active: Tensor) -> None:
        """Update the moving averages of the parameters after one step, in place.

        Args:
            averages: Moving averages, float32 `[M, P]`.
            parameters: Parameters after the step, `[M, P]`.
            step: Index of the step, counted from 0.
            active: Models that took the step, bool `[M]`.
        """
        weight = torch.where(step == 0, 1, 1 - self.values["ema"]).to(averages.dtype)
        updated = torch.lerp(averages, parameters, weight)
        averages.copy_(torch.where(active[:, None], updated, averages))


def update(
    parameters: Tensor,
    moments: Moments,
    gradients: Sequence[Tensor],
    places: Sequence[int],
    rates: Tensor,
    alive: Tensor,
    finite: Tensor,
    working: Tensor | None = None,
    limits: Tensor | None = None,
    limited: Sequence[bool] | None = None,
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
        limits: Coefficients of weight decay and clipping, `[M, 3]`, or None.
        limited: Whether decay and element-wise clipping apply to each part (default: to all).
    """
    limited = [True] * len(gradients) if limited is None else limited
    if fused(parameters):
        from unweave.kernels import gpu_adam

        first, second = moments.first, moments.second
        copy = parameters if working is None else working
        gpu_adam.update(
            parameters,
            first,
            second,
            gradients,
            places,
            copy,
            rates,
            alive,
            finite,
            limits,
            limited,
        )
        return
    for gradient, place, within in zip(gradients, places, limited, strict=True):
        part = slice(place, place + gradient.shape[1])
        own = Moments(moments.first[:, part], moments.second[:, part])
        finite &= _update_part(parameters[:, part], own, gradient, rates, alive, limits, within)
    if working is not None:
        working.copy_(parameters)


def _update_part(
    parameters: Tensor,
    moments: Moments,
    gradient: Tensor,
    rates: Tensor,
    alive: Tensor,
    limits: Tensor | None,
    limited: bool,
) -> Tensor:
    """Update one part; return which models have a finite gradient, `[M]`."""
    step, weight1, weight2, shrink, eps = rates.split(1, 1)
    gradient = gradient.to(parameters.dtype)
    finite = gradient.abs().amax(1) < TOO_LARGE
    shrunk: Tensor | None = None
    if limits is not None:
        decay, factor, largest = limits.to(parameters.dtype).split(1, 1)
        gradient = gradient * factor
        if limited:
            gradient, shrunk = gradient.clamp(-largest, largest), 1 - decay
    active = (alive & finite)[:, None]
    if _all_on_host(active):  # a third of the passes over memory
        first = moments.first.lerp_(gradient, weight1)
        second = moments.second.lerp_(gradient.square(), weight2)
        if shrunk is not None:
            parameters *= shrunk
        parameters -= (step * first).div_(second.sqrt().mul_(shrink).add_(eps))
        return finite
    first = torch.lerp(moments.first, gradient, weight1)
    second = torch.lerp(moments.second, gradient.square(), weight2)
    start = parameters if shrunk is None else parameters * shrunk
    updated = start - step * first / (second.sqrt() * shrink + eps)
    parameters.copy_(torch.where(active, updated, parameters))
    moments.first.copy_(torch.where(active, first, moments.first))
    moments.second.copy_(torch.where(active, second, moments.second))
    return finite


def _all_on_host(active: Tensor) -> bool:
    """Whether all models are active, if that is known without waiting for a GPU."""
    return active.device.type == "cpu" and bool(active.all())
