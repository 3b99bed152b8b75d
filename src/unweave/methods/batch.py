"""Inputs of objectives: batches of images, posteriors and ensemble members.

Shapes: M models in a fleet, B images per model and step, d latents, K factors. M models with n
members each have M · n rows, with the members of a model adjacent.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.kernels import fused
from unweave.random import Stream

__all__ = ["NOISELESS", "Batch", "Posterior", "for_members", "member_seeds"]

NOISELESS = -20.0
"""Log-variance of codes without noise."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Data of one training step, as passed to an objective.

    Args:
        images: Images `[M, B, H, W, C]`: floats in [0, 1], or uint8 in [0, 255].
        partners: Second images of pairs, for methods that train on pairs.
        seeds: Random seeds of the models, int64 `[M]`.
        step: Number of completed steps, a scalar on the device.
        data_size: Number of images in the data set.
        member_seeds: Random seeds of ensemble members, int64 `[M · n]`.
        indices: Indices of the images in the data set, int64 `[M, B]`; None if unknown.
        factors: Scaled known factors, float32 `[M, B, K]`, for methods or first stages that use
            them as codes; or classes of one factor, `[M, B, 1]`, for methods with an `Auxiliary`.
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
        """Return the second images of pairs; raise an error naming `method` if there are none."""
        if self.partners is None:
            raise UnweaveError(
                f"{method} trains on pairs, which need data with a grid of factors; load custom "
                "images together with a table of factors",
                subject="pairs",
                value=method,
            )
        return self.partners

    def of_members(self) -> "Batch":
        """Repeat the batch for every member, `[M · n, …]`: the same images, different noise."""
        if self.member_seeds is None:
            return self
        members = len(self.member_seeds) // len(self.seeds)
        images = for_members(self.images, members)
        return replace(self, images=images, seeds=self.member_seeds, member_seeds=None)

    def stream(self, purpose: str) -> Stream:
        """Return the random stream of each model for this step and purpose."""
        return Stream(self.seeds, purpose, self.step)

    def noise(self, purpose: str, like: Tensor) -> Tensor:
        """Return standard normal noise with the shape of `like`, `[M, B, d]`."""
        return self.stream(purpose).normal(like.shape[1], like.shape[2]).to(like.dtype)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Diagonal normal distributions `q(z|x)`: mean and log-variance, each `[M, B, d]`."""

    mu: Tensor
    logvar: Tensor

    @classmethod
    def of_points(cls, codes: Tensor) -> "Posterior":
        """Return codes without noise as posteriors with negligible variance."""
        return cls(codes, torch.full_like(codes, NOISELESS))

    def sample(self, noise: Tensor) -> Tensor:
        """Compute z = μ + σ ε."""
        return self.mu + (self.logvar / 2).exp() * noise

    def kl(self) -> Tensor:
        """KL(q(z|x) ‖ N(0, I)) = ½ Σ (μ² + σ² - log σ² - 1) of each image, in nats, `[M, B]`."""
        return 0.5 * (self.mu**2 + self.logvar.expm1() - self.logvar).sum(-1)

    def sample_and_kl(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Compute z and KL(q(z|x) ‖ N(0, I)), in one pass on a GPU."""
        if fused(self.mu) and self.mu.shape == self.logvar.shape == noise.shape:
            from unweave.kernels import gpu_latents

            return gpu_latents.sample_and_kl(self.mu, self.logvar, noise)
        return self.sample(noise), self.kl()

    def log_density(self, z: Tensor) -> Tensor:
        """Compute log q(z_l | x) of each latent, for z that broadcasts with the mean."""
        return -0.5 * (
            (z - self.mu) ** 2 * (-self.logvar).exp() + self.logvar + math.log(2 * math.pi)
        )


def for_members(values: Tensor, members: int) -> Tensor:
    """Repeat per-model values `[M, …]` for each member, `[M · n, …]`.

    Always copies: in an expanded view of a single model all members would share one row, and
    kernels that assume separate rows would read past its end.
    """
    return values.repeat_interleave(members, 0)


def member_seeds(seeds: Tensor, members: int) -> Tensor:
    """Return the seeds `[M · n]` of all members; the first member has the seed of its model.

    Example:
        >>> member_seeds(torch.tensor([0, 7]), 2).tolist()
        [0, 2502487159946921518, 7, 1045337749967299303]
    """
    others = [Stream(seeds, f"member {member}").words(1, 2)[:, 0] for member in range(1, members)]
    derived = [(words[:, 0] >> 1 << 32) + words[:, 1] for words in others]
    return torch.stack([seeds, *derived], 1).flatten()
