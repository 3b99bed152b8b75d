"""Normalisation layers: instance norm, batch norm, and adaptive instance norm."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.kernels import instance_norm
from unweave.kernels.reference import ACTIVATIONS, normalised
from unweave.nets.layers import Activation

__all__ = ["AdaptiveNorm", "BatchNorm", "InstanceNorm", "LayerNorm", "ScaledNorm"]


@dataclass(frozen=True)
class InstanceNorm(Activation):
    """Normalise each channel of each image to mean 0 and variance 1, then apply an activation."""

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        del parameters  # this layer has none
        return instance_norm(x, None, self.name)


@dataclass(frozen=True)
class ScaledNorm:
    """Normalise each channel of each image, scale and shift it, then apply an activation."""

    channels: int
    activation: str

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"scale": (self.channels,), "shift": (self.channels,)}

    @property
    def fans(self) -> tuple[int, int]:
        return 1, 1

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        both = torch.cat([parameters["scale"], parameters["shift"]], -1)
        own = both[:, None].expand(-1, x.shape[1], -1).contiguous()
        return instance_norm(x, own, self.activation)


@dataclass(frozen=True)
class LayerNorm(ScaledNorm):
    """Normalise all features of each input, scale and shift them, then apply an activation."""

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        scale, shift = (parameters[name][:, None].float() for name in ("scale", "shift"))
        normal = torch.addcmul(shift, normalised(x, (2,)), scale)
        return ACTIVATIONS[self.activation](normal.to(x.dtype))


@dataclass(frozen=True)
class BatchNorm:
    """Normalise each channel over the batch, scale and shift it, then apply an activation.

    There are no running statistics: the layer is for networks that always process batches, such
    as discriminators. To make outputs independent of the other inputs, a batch can start with
    fixed reference inputs, whose mean and deviation are used for all.
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
    """Normalise each channel of each image, with scale and shift computed from a code.

        h ← γ(z) (h - μ(h)) / √(σ²(h) + ε) + β(z),     γ(z) = 1 + W_γ z,     β(z) = W_β z

    with μ and σ² over the pixels. The constants 1 and 0 are initial values of learned biases. An
    activation follows.

    Args:
        channels: Number of channels.
        latents: Size of the code.
        activation: One of `kernels.reference.ACTIVATIONS`.
        rectified: Whether γ and β are rectified, so that they are never negative.
        pixels: Height and width, for γ and β that differ between pixels and are rectified, as in
            the authors' code; None for one γ and β per channel, as in the paper.
    """

    channels: int
    latents: int
    activation: str
    pixels: tuple[int, int] | None = None
    rectified: bool = False

    @property
    def size(self) -> int:
        """Number of values of γ and of β."""
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
            return instance_norm(x, both.relu() if self.rectified else both, self.activation)
        both = both.unflatten(-1, (2, *self.pixels, self.channels)).float()
        scale, shift = both.relu().unbind(2)
        adapted = torch.addcmul(shift, normalised(x, (2, 3)), scale)
        return ACTIVATIONS[self.activation](adapted.to(x.dtype))
