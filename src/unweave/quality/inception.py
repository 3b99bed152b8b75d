"""The Inception network of FID, with the features that everybody compares.

It is the Inception-v3 that TensorFlow published in December 2015, and differs from later ones of
the same name: 3 × 3 averages leave out the padding, and the last block takes a maximum where the
others take an average. Each convolution has its batch norm folded in.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from unweave.errors import UnweaveError

__all__ = ["WIDTHS", "Inception", "Layer", "check_width", "resize"]

WIDTHS = (64, 192, 768, 2048)
"""How many features there are after the first and second pooling, before the reduction to 8 × 8,
and at the end."""

SIDE = 299
EPSILON = 1e-3


class Layer(NamedTuple):
    """A convolution's weights, `[outputs, inputs, h, w]`, and its batch norm's, `[outputs]`."""

    weight: Tensor
    scale: Tensor
    shift: Tensor
    mean: Tensor
    variance: Tensor


class Inception(nn.Module):
    """From images to features, the averages over positions of the last maps of a stage.

    Args:
        layers: The weights of the 94 convolutions, in the order in which they are built here.
    """

    def __init__(self, layers: Iterable[Layer]) -> None:
        super().__init__()
        with torch.device("meta"):  # so that no initial weights are drawn
            self.stages = nn.ModuleList([_first(), _second(), _third(), _last()])
        for convolution, layer in zip(self.convolutions(), layers, strict=True):
            _fill(convolution, layer)

    def convolutions(self) -> list[nn.Conv2d]:
        """All of them, in order."""
        return [module for module in self.modules() if isinstance(module, nn.Conv2d)]

    @torch.no_grad()
    def forward(self, images: Tensor, width: int = WIDTHS[-1]) -> Tensor:
        """The features of a batch.

        Args:
            images: `[n, H, W, 3]`, values 0 … 255, of any size.
            width: How many features, one of `WIDTHS`.

        Returns:
            float32 `[n, width]`
        """
        check_width(width)
        # Channels lie innermost and stay there, which is the fastest order for a CPU.
        maps = ((resize(images.float()) - 128) / 128).permute(0, 3, 1, 2)
        for stage in self.stages[: WIDTHS.index(width) + 1]:
            maps = stage(maps)
        return maps.mean((2, 3))


def check_width(width: int) -> None:
    """Refuse a number of features that no stage has."""
    if width not in WIDTHS:
        raise UnweaveError(f"Inception gives 64, 192, 768 or 2048 features, but got {width}")


def resize(images: Tensor, side: int = SIDE) -> Tensor:
    """Images `[n, H, W, C]` resized to `[n, side, side, C]` as TensorFlow 1 does it.

    Pixel i of the result lies at i · size / side of the image, between two pixels that are
    interpolated linearly: corners coincide instead of centres, and nothing is smoothed before it
    is made smaller.
    """
    for axis in (2, 1):
        size = images.shape[axis]
        place = torch.arange(side, device=images.device) * (size / side)
        low = place.long()
        high = (low + 1).clamp(max=size - 1)
        part = (place - low).view([-1 if k == axis else 1 for k in range(4)])
        images = torch.lerp(images.index_select(axis, low), images.index_select(axis, high), part)
    return images


def _fill(convolution: nn.Conv2d, layer: Layer) -> None:
    """Set a convolution's weights: (W x - mean) · scale / √(variance + ε) + shift."""
    weight, scale, shift, mean, variance = (part.double() for part in layer)
    factor = scale * (variance + EPSILON).rsqrt()
    weight = (weight.view(convolution.weight.shape) * factor[:, None, None, None]).float()
    bias = (shift - mean * factor).float()
    weight = weight.contiguous(memory_format=torch.channels_last)
    convolution.weight = nn.Parameter(weight, requires_grad=False)
    convolution.bias = nn.Parameter(bias, requires_grad=False)


class Branches(nn.ModuleList):
    """Networks beside each other: their maps, one after the other."""

    def forward(self, maps: Tensor) -> Tensor:
        return torch.cat([cast(Tensor, branch(maps)) for branch in self], 1)


def _conv(
    inputs: int, outputs: int, height: int, width: int, stride: int = 1, padded: bool = True
) -> nn.Sequential:
    padding = (height // 2, width // 2) if padded else 0
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, (height, width), stride, padding), nn.ReLU(inplace=True)
    )


def _average() -> nn.Module:
    return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)


def _first() -> nn.Sequential:
    return nn.Sequential(
        _conv(3, 32, 3, 3, stride=2, padded=False),
        _conv(32, 32, 3, 3, padded=False),
        _conv(32, 64, 3, 3),
        nn.MaxPool2d(3, stride=2),
    )


def _second() -> nn.Sequential:
    return nn.Sequential(
        _conv(64, 80, 1, 1),
        _conv(80, 192, 3, 3, padded=False),
        nn.MaxPool2d(3, stride=2),
    )


def _third() -> nn.Sequential:
    return nn.Sequential(
        _block_35(192, 32),
        _block_35(256, 64),
        _block_35(288, 64),
        _reduction_to_17(),
        _block_17(128),
        _block_17(160),
        _block_17(160),
        _block_17(192),
    )


def _last() -> nn.Sequential:
    return nn.Sequential(
        _reduction_to_8(),
        _block_8(1280, _average()),
        _block_8(2048, nn.MaxPool2d(3, stride=1, padding=1)),
    )


def _block_35(inputs: int, pooled: int) -> Branches:
    """A block of 35 × 35 maps, `pooled` of which come from averages."""
    return Branches(
        [
            _conv(inputs, 64, 1, 1),
            nn.Sequential(_conv(inputs, 48, 1, 1), _conv(48, 64, 5, 5)),
            nn.Sequential(_conv(inputs, 64, 1, 1), _conv(64, 96, 3, 3), _conv(96, 96, 3, 3)),
            nn.Sequential(_average(), _conv(inputs, pooled, 1, 1)),
        ]
    )


def _reduction_to_17() -> Branches:
    return Branches(
        [
            _conv(288, 384, 3, 3, stride=2, padded=False),
            nn.Sequential(
                _conv(288, 64, 1, 1),
                _conv(64, 96, 3, 3),
                _conv(96, 96, 3, 3, stride=2, padded=False),
            ),
            nn.MaxPool2d(3, stride=2),
        ]
    )


def _block_17(inner: int) -> Branches:
    """A block of 17 × 17 maps, with `inner` maps inside its long branches."""
    return Branches(
        [
            _conv(768, 192, 1, 1),
            nn.Sequential(
                _conv(768, inner, 1, 1), _conv(inner, inner, 1, 7), _conv(inner, 192, 7, 1)
            ),
            nn.Sequential(
                _conv(768, inner, 1, 1),
                _conv(inner, inner, 7, 1),
                _conv(inner, inner, 1, 7),
                _conv(inner, inner, 7, 1),
                _conv(inner, 192, 1, 7),
            ),
            nn.Sequential(_average(), _conv(768, 192, 1, 1)),
        ]
    )


def _reduction_to_8() -> Branches:
    return Branches(
        [
            nn.Sequential(_conv(768, 192, 1, 1), _conv(192, 320, 3, 3, stride=2, padded=False)),
            nn.Sequential(
                _conv(768, 192, 1, 1),
                _conv(192, 192, 1, 7),
                _conv(192, 192, 7, 1),
                _conv(192, 192, 3, 3, stride=2, padded=False),
            ),
            nn.MaxPool2d(3, stride=2),
        ]
    )


def _block_8(inputs: int, pool: nn.Module) -> Branches:
    """A block of 8 × 8 maps."""
    return Branches(
        [
            _conv(inputs, 320, 1, 1),
            nn.Sequential(_conv(inputs, 384, 1, 1), _across_and_down()),
            nn.Sequential(_conv(inputs, 448, 1, 1), _conv(448, 384, 3, 3), _across_and_down()),
            nn.Sequential(pool, _conv(inputs, 192, 1, 1)),
        ]
    )


def _across_and_down() -> Branches:
    return Branches([_conv(384, 384, 1, 3), _conv(384, 384, 3, 1)])
