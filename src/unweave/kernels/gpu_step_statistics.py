"""Step statistics on a GPU, one kernel per function; see `unweave.fleet.step_statistics`."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["accumulate", "stop_diverged"]

MODELS = 128


def stop_diverged(alive: Tensor, losses: Sequence[Tensor]) -> Tensor:
    """See `step_statistics.stop_diverged`."""
    finite, own = torch.empty_like(alive), _dense(losses, len(alive))
    _stop_kernel[_grid(alive)](alive, finite, own, len(alive), len(own), MODELS)
    return finite


def accumulate(
    alive: Tensor,
    finite: Tensor,
    diverged_at: Tensor,
    step: Tensor,
    values: Sequence[Tensor],
    sums: Tensor,
    count: Tensor,
) -> None:
    """See `step_statistics.accumulate`."""
    own = _dense(values, len(alive))
    _add_kernel[_grid(alive)](
        alive, finite, diverged_at, step, own, sums, count, len(alive), len(own), MODELS
    )


def _dense(values: Sequence[Tensor], models: int) -> tuple[Tensor, ...]:
    return tuple(value.float().expand(models).contiguous() for value in values)


def _grid(alive: Tensor) -> tuple[int]:
    return (triton.cdiv(len(alive), MODELS),)


@triton.jit
def _stop_kernel(alive, finite, losses, models, LOSSES: tl.constexpr, MODELS: tl.constexpr):
    model = tl.program_id(0) * MODELS + tl.arange(0, MODELS)
    known = model < models
    sound = tl.load(alive + model, mask=known, other=False)
    for group in tl.static_range(LOSSES):
        loss = tl.load(losses[group] + model, mask=known, other=0.0)
        sound &= tl.abs(loss) < float("inf")
    tl.store(alive + model, sound, mask=known)
    tl.store(finite + model, sound, mask=known)


@triton.jit
def _add_kernel(
    alive,
    finite,
    diverged_at,
    step,
    values,
    sums,
    count,
    models,
    TERMS: tl.constexpr,
    MODELS: tl.constexpr,
):
    model = tl.program_id(0) * MODELS + tl.arange(0, MODELS)
    known = model < models
    sound = tl.load(alive + model, mask=known, other=False)
    sound &= tl.load(finite + model, mask=known, other=False)
    tl.store(alive + model, sound, mask=known)
    at_step = tl.load(diverged_at + model, mask=known, other=0)
    at_step = tl.where(sound | (at_step >= 0), at_step, tl.load(step))
    tl.store(diverged_at + model, at_step, mask=known)
    for term in tl.static_range(TERMS):
        value = tl.load(values[term] + model, mask=known, other=0.0)
        place = sums + term * models + model
        total = tl.load(place, mask=known, other=0.0) + tl.where(sound, value, 0.0)
        tl.store(place, total, mask=known)
    if tl.program_id(0) == 0:
        tl.atomic_add(count, 1.0)
