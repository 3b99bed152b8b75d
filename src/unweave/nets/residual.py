"""A residual network with group normalisation, for images of 128 pixels and more.

It is written as ordinary `torch.nn.Module`s, like a network of your own.
"""

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from unweave.nets.sizes import Shape, feature_map

__all__ = ["ResidualDecoder", "ResidualEncoder"]

WIDTHS = (32, 64, 128, 256, 256, 256)
"""Channels after each halving of the image."""
GROUPS = 8


class Block(nn.Module):
    """Two normalised 3 × 3 convolutions, added to their input: x + f(f(x))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_normalised(channels), *_normalised(channels))

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = x + self.body(x)
        return added


class ResidualEncoder(nn.Module):
    """From images `[B, C, H, W]` to mean and log-variance `[B, 2 d]`."""

    def __init__(self, shape: Shape, latents: int) -> None:
        super().__init__()
        small = feature_map(shape)
        self.margins = small.margins
        widths = [shape[2], *WIDTHS[: small.halvings]]
        stages = [(nn.Conv2d(a, b, 4, 2, 1), Block(b)) for a, b in pairwise(widths)]
        self.stages = nn.Sequential(*(layer for stage in stages for layer in stage))
        self.norm = nn.GroupNorm(GROUPS, widths[-1])
        self.heads = nn.Linear(widths[-1] * small.cells, 2 * latents)

    def forward(self, images: Tensor) -> Tensor:
        features = F.silu(self.norm(self.stages(F.pad(images, self.margins))))
        codes: Tensor = self.heads(features.flatten(1))
        return codes


class ResidualDecoder(nn.Module):
    """From codes `[B, d]` to logits or means of images `[B, C, H, W]`."""

    def __init__(self, shape: Shape, latents: int) -> None:
        super().__init__()
        small = feature_map(shape)
        self.crop = small.crop
        widths = WIDTHS[: small.halvings][::-1]
        self.size = (widths[0], small.height, small.width)
        self.dense = nn.Linear(latents, widths[0] * small.cells)
        pairs = pairwise([*widths, widths[-1]])
        stages = [(Block(a), nn.ConvTranspose2d(a, b, 4, 2, 1)) for a, b in pairs]
        self.stages = nn.Sequential(*(layer for stage in stages for layer in stage))
        self.image = nn.Sequential(*_normalised(widths[-1], shape[2]))

    def forward(self, codes: Tensor) -> Tensor:
        features = self.dense(codes).unflatten(1, self.size)
        return F.pad(self.image(self.stages(features)), self.crop)


def _normalised(inputs: int, outputs: int | None = None) -> list[nn.Module]:
    """Group normalisation, SiLU, and a 3 × 3 convolution."""
    convolution = nn.Conv2d(inputs, outputs or inputs, 3, 1, 1)
    return [nn.GroupNorm(GROUPS, inputs), nn.SiLU(), convolution]
