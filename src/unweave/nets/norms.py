"""Layers that normalise images: each by itself, over a batch, or as a code says."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.kernels import instance_norm
from unweave.kernels.reference import ACTIVATIONS, normalised
from unweave.nets.layers import Activation

__all__ = ["AdaptiveNorm", "BatchNorm", "InstanceNorm"]


@dataclass(frozen=True)
class InstanceNorm(Activation):
    """Every channel of every image with mean 0 and variance 1, then an activation."""

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        del parameters  # there are none
        return instance_norm(x, None, self.name)


@dataclass(frozen=True)
class BatchNorm:
    """Every channel with a learned mean and deviation over the batch, then an activation.

    There are no running statistics: it is for networks that only ever see batches, as
    discriminators do. Where what becomes of an input must not depend on the others, the batch can
    begin with some for reference, which are always the same, and mean and deviation are theirs.
    """

    channels: int
    activation: str

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"scale": (self.channels,), "shift": (self.channels,)}

    @property
    def fans(self) -> tuple[int, int]:
        return 1, 1

    def __call__(
        self, parameters: Mapping[str, Tensor], x: Tensor, reference: int | None = None
    ) -> Tensor:
        axes = tuple(range(1, x.ndim - 1))
        scale, shift = (
            parameters[name].unflatten(0, (-1, *(1 for _ in axes))) for name in ("scale", "shift")
        )
        normal = torch.addcmul(shift.float(), normalised(x, axes, reference), scale.float())
        return ACTIVATIONS[self.activation](normal.to(x.dtype))


@dataclass(frozen=True)
class AdaptiveNorm:
    """Normalisation of every channel of every image with a mean and deviation that a code says.

        h ← γ(z) (h - μ(h)) / √(σ²(h) + ε) + β(z),     γ(z) = 1 + W_γ z,     β(z) = W_β z

    with μ and σ² over the pixels; both linear maps have a learned constant, of which 1 and 0 are
    where they begin. Then an activation.

    Args:
        channels: C, of the images.
        latents: Of the code.
        activation: Of `kernels.reference.ACTIVATIONS`.
        pixels: Height and width, where γ and β should be another for every pixel, and are
            rectified, as in the authors' code; None for the formula of the paper, one for every
            channel.
    """

    channels: int
    latents: int
    activation: str
    pixels: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """How many numbers γ has, and β."""
        return math.prod((*(self.pixels or (1, 1)), self.channels))

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {
            "weight": (self.latents, 2 * self.size),
            "scale": (self.size,),
            "shift": (self.size,),
        }

    @property
    def fans(self) -> tuple[int, int]:
        return self.latents, self.size

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor, code: Tensor) -> Tensor:
        start = torch.cat([parameters["scale"], parameters["shift"]], -1)
        both = torch.baddbmm(start[:, None], code.to(start.dtype), parameters["weight"])
        if self.pixels is None:
            return instance_norm(x, both, self.activation)
        both = both.unflatten(-1, (2, *self.pixels, self.channels)).float()
        scale, shift = both.relu().unbind(2)
        adapted = torch.addcmul(shift, normalised(x, (2, 3)), scale)
        return ACTIVATIONS[self.activation](adapted.to(x.dtype))
