"""Step statistics: which models are alive, when the others diverged, and sums of reported values.

On a GPU each of the two functions is one kernel.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from unweave.kernels.dispatch import fused

__all__ = ["accumulate", "stop_diverged"]


def stop_diverged(alive: Tensor, losses: Sequence[Tensor]) -> Tensor:
    """Stop the models that have a loss that is not finite, before their weights are updated.

    Args:
        alive: bool `[M]`, changed in place.
        losses: Of all network groups, `[M]` each.

    Returns:
        A copy of `alive`, in which updates mark the models whose gradients are not finite.
    """
    if fused(losses[0]):
        from unweave.kernels import gpu_step_statistics

        return gpu_step_statistics.stop_diverged(alive, losses)
    for loss in losses:
        alive &= loss.isfinite()
    return alive.clone()


def accumulate(
    alive: Tensor,
    finite: Tensor,
    diverged_at: Tensor,
    step: Tensor,
    values: Sequence[Tensor],
    sums: Tensor,
    count: Tensor,
) -> None:
    """Record the outcome of a step, in place; values of stopped models do not count.

    Args:
        alive: bool `[M]`
        finite: bool `[M]`, the models that stay alive.
        diverged_at: int64 `[M]`, becomes the step for models that diverged in it; -1 before.
        step: The number of this step, a scalar.
        values: Reported values, `[M]` each.
        sums: float32 `[terms, M]`
        count: The number of steps in the sums, a scalar.
    """
    if fused(sums):
        from unweave.kernels import gpu_step_statistics

        gpu_step_statistics.accumulate(alive, finite, diverged_at, step, values, sums, count)
        return
    alive &= finite
    diverged = ~alive & (diverged_at < 0)
    diverged_at.copy_(torch.where(diverged, step, diverged_at))
    sums += torch.where(alive, torch.stack(list(values)).float(), 0)
    count += 1
