"""What one step of training gives an objective: images, and random numbers for them.

Shapes: M models of a fleet, n members of a model, B images per model and step, K factors.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from unweave.errors import UnweaveError
from unweave.methods.members import for_members
from unweave.random import Stream

__all__ = ["Batch"]


@dataclass(frozen=True, eq=False)
class Batch:
    """What one step of training gives an objective.

    Args:
        images: `[M, B, H, W, C]`, float in [0, 1], or bytes, which stand for the same.
        partners: The second images of pairs, where the method asks for pairs.
        seeds: int64 `[M]`, the models' seeds.
        step: The number of steps taken so far, a scalar on the device.
        data_size: How many images the data set has.
        member_seeds: int64 `[M · n]`, where a model has n members.
        indices: int64 `[M, B]`, which images these are; None where nobody knows.
        factors: float32 `[M, B, K]`, scaled, those that the method or its first stage is given.
    """

    images: Tensor
    seeds: Tensor
    step: Tensor
    data_size: int
    partners: Tensor | None = None
    member_seeds: Tensor | None = None
    indices: Tensor | None = None
    factors: Tensor | None = None

    def paired(self, method: str) -> Tensor:
        """The second images of pairs, which a method of this name cannot do without."""
        if self.partners is None:
            raise UnweaveError(
                f"{method} trains on pairs, which need data with a grid of factors; load your own "
                "images with a table of factors"
            )
        return self.partners

    def of_members(self) -> "Batch":
        """The same for every member of every model, `[M · n, …]`: its images, its own noise."""
        if self.member_seeds is None:
            return self
        members = len(self.member_seeds) // len(self.seeds)
        images = for_members(self.images, members)
        return replace(self, images=images, seeds=self.member_seeds, member_seeds=None)

    def stream(self, purpose: str) -> Stream:
        """Each model's own random numbers for this step and purpose."""
        return Stream(self.seeds, purpose, self.step)

    def noise(self, purpose: str, like: Tensor) -> Tensor:
        """Standard normal numbers shaped like `[M, B, d]`."""
        return self.stream(purpose).normal(like.shape[1], like.shape[2]).to(like.dtype)
