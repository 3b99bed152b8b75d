"""Step statistics: detection of diverged models, and sums of reported values.

On a GPU, each of the two functions is a single kernel.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from unweave.kernels import fused

__all__ = ["accumulate", "stop_diverged"]


def stop_diverged(alive: Tensor, losses: Sequence[Tensor]) -> Tensor:
    """Stop models with a non-finite loss before their weights are updated.

    Args:
        alive: Models in training, bool `[M]`, changed in place.
        losses: Losses of all network groups, `[M]` each.

    Returns:
        A copy of `alive`, in which updates mark models with non-finite gradients.
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
    """Record the outcome of a step in place, ignoring values of stopped models.

    Args:
        alive: Models in training, bool `[M]`.
        finite: Models with finite losses and gradients, bool `[M]`.
        diverged_at: Step at which each model diverged, or -1, int64 `[M]`.
        step: Index of this step, a scalar.
        values: Reported values, `[M]` each.
        sums: Sums of the values, float32 `[terms, M]`.
        count: Number of steps in the sums, a scalar.
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
