"""The books of a step: which models are alive, when the others fell, and sums of what to report.

On a GPU each of the two functions is one kernel.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from unweave.kernels.dispatch import fused

__all__ = ["add_up", "stop_lost"]


def stop_lost(alive: Tensor, losses: Sequence[Tensor]) -> Tensor:
    """Stop the models with a loss that is not finite, before they move.

    Args:
        alive: bool `[M]`, changed in place.
        losses: Of all players, `[M]` each.

    Returns:
        A copy of `alive`, in which to note whose gradients are not finite.
    """
    if fused(losses[0]):
        from unweave.kernels import gpu_step_statistics as tally_gpu

        return tally_gpu.stop_lost(alive, losses)
    for loss in losses:
        alive &= loss.isfinite()
    return alive.clone()


def add_up(
    alive: Tensor,
    finite: Tensor,
    diverged_at: Tensor,
    step: Tensor,
    values: Sequence[Tensor],
    sums: Tensor,
    count: Tensor,
) -> None:
    """Close the books of a step, in place; what a stopped model reports does not count.

    Args:
        alive: bool `[M]`
        finite: bool `[M]`, who stays alive.
        diverged_at: int64 `[M]`, becomes the step for models that fell in it; -1 before.
        step: The number of this step, a scalar.
        values: What to report, `[M]` each.
        sums: float32 `[terms, M]`
        count: A scalar, how many steps are in the sums.
    """
    if fused(sums):
        from unweave.kernels import gpu_step_statistics as tally_gpu

        tally_gpu.add_up(alive, finite, diverged_at, step, values, sums, count)
        return
    alive &= finite
    fallen = ~alive & (diverged_at < 0)
    diverged_at.copy_(torch.where(fallen, step, diverged_at))
    sums += torch.where(alive, torch.stack(list(values)).float(), 0)
    count += 1
