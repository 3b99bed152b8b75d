"""The Inception network of FID, whose features match those of other implementations.

It is the Inception-v3 that TensorFlow published in December 2015. It differs from later versions:
3 × 3 average pooling excludes the padding, and the last block uses max pooling instead of average
pooling. Batch normalisation is folded into the convolutions.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from unweave.errors import UnweaveError

__all__ = ["WIDTHS", "Inception", "Layer", "check_width", "resize"]

WIDTHS = (64, 192, 768, 2048)
"""Number of features after the first and second pooling, before the reduction to 8 × 8, and at
the end."""

SIDE = 299
EPSILON = 1e-3


class Layer(NamedTuple):
    """Weights of a convolution, `[outputs, inputs, h, w]`, and its batch norm, `[outputs]`."""

    weight: Tensor
    scale: Tensor
    shift: Tensor
    mean: Tensor
    variance: Tensor


class Inception(nn.Module):
    """Network that maps images to features: the last maps of a stage, averaged over positions.

    Args:
        layers: Weights of the 94 convolutions, in the order of their construction.
    """

    def __init__(self, layers: Iterable[Layer]) -> None:
        super().__init__()
        with torch.device("meta"):  # skips the random initialisation
            self.stages = nn.ModuleList([_first(), _second(), _third(), _last()])
        for convolution, layer in zip(self.convolutions(), layers, strict=True):
            _fill(convolution, layer)

    def convolutions(self) -> list[nn.Conv2d]:
        """Return all convolutions, in order."""
        return [module for module in self.modules() if isinstance(module, nn.Conv2d)]

    @torch.no_grad()
    def forward(self, images: Tensor, width: int = WIDTHS[-1]) -> Tensor:
        """Compute the features of a batch.

        Args:
            images: Images `[n, H, W, 3]` of any size, with values 0 … 255.
            width: Number of features, one of `WIDTHS`.

        Returns:
            float32 `[n, width]`
        """
        check_width(width)
        # The channels-last memory format is the fastest on a CPU.
        maps = ((resize(images.float()) - 128) / 128).permute(0, 3, 1, 2)
        for stage in self.stages[: WIDTHS.index(width) + 1]:
            maps = stage(maps)
        return maps.mean((2, 3))


def check_width(width: int) -> None:
    """Reject a number of features that no stage has."""
    if width not in WIDTHS:
        raise UnweaveError(
            f"features must be 64, 192, 768 or 2048, got {width}",
            subject="features",
            value=width,
        )


def resize(images: Tensor, side: int = SIDE) -> Tensor:
    """Resize images `[n, H, W, C]` to `[n, side, side, C]` as TensorFlow 1 does.

    Pixel i of the result is interpolated linearly at position i · size / side of the image: the
    top left corners are aligned instead of the centres, without anti-aliasing.
    """
    for axis in (2, 1):
        size = images.shape[axis]
        position = torch.arange(side, device=images.device) * (size / side)
        low = position.long()
        high = (low + 1).clamp(max=size - 1)
        part = (position - low).view([-1 if k == axis else 1 for k in range(4)])
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
    """Parallel networks whose output channels are concatenated."""

    def forward(self, maps: Tensor) -> Tensor:
        return torch.cat([cast(Tensor, branch(maps)) for branch in self], 1)


def _chain(inputs: int, *layers: tuple[int, ...]) -> nn.Sequential:
    """Chain convolutions with ReLU: (outputs, height, width) padded, (…, stride) unpadded."""
    modules: list[nn.Module] = []
    for outputs, height, width, *stride in layers:
        padding = 0 if stride else (height // 2, width // 2)
        step = stride[0] if stride else 1
        convolution = nn.Conv2d(inputs, outputs, (height, width), step, padding)
        modules += [convolution, nn.ReLU(inplace=True)]
        inputs = outputs
    return nn.Sequential(*modules)


def _average() -> nn.Module:
    return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)


def _first() -> nn.Sequential:
    layers = _chain(3, (32, 3, 3, 2), (32, 3, 3, 1), (64, 3, 3))
    return nn.Sequential(layers, nn.MaxPool2d(3, stride=2))


def _second() -> nn.Sequential:
    return nn.Sequential(_chain(64, (80, 1, 1), (192, 3, 3, 1)), nn.MaxPool2d(3, stride=2))


def _third() -> nn.Sequential:
    return nn.Sequential(
        _block_35(192, 32),
        _block_35(256, 64),
        _block_35(288, 64),
        _reduction_to_17(),
        *(_block_17(inner) for inner in (128, 160, 160, 192)),
    )


def _last() -> nn.Sequential:
    return nn.Sequential(
        _reduction_to_8(),
        _block_8(1280, _average()),
        _block_8(2048, nn.MaxPool2d(3, stride=1, padding=1)),
    )


def _block_35(inputs: int, pooled: int) -> Branches:
    """Block of 35 × 35 maps, `pooled` of which come from average pooling."""
    return Branches(
        [
            _chain(inputs, (64, 1, 1)),
            _chain(inputs, (48, 1, 1), (64, 5, 5)),
            _chain(inputs, (64, 1, 1), (96, 3, 3), (96, 3, 3)),
            nn.Sequential(_average(), _chain(inputs, (pooled, 1, 1))),
        ]
    )


def _reduction_to_17() -> Branches:
    return Branches(
        [
            _chain(288, (384, 3, 3, 2)),
            _chain(288, (64, 1, 1), (96, 3, 3), (96, 3, 3, 2)),
            nn.MaxPool2d(3, stride=2),
        ]
    )


def _block_17(inner: int) -> Branches:
    """Block of 17 × 17 maps, with `inner` maps inside its long branches."""
    across, down = (inner, 1, 7), (inner, 7, 1)
    return Branches(
        [
            _chain(768, (192, 1, 1)),
            _chain(768, (inner, 1, 1), across, (192, 7, 1)),
            _chain(768, (inner, 1, 1), down, across, down, (192, 1, 7)),
            nn.Sequential(_average(), _chain(768, (192, 1, 1))),
        ]
    )


def _reduction_to_8() -> Branches:
    return Branches(
        [
            _chain(768, (192, 1, 1), (320, 3, 3, 2)),
            _chain(768, (192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3, 2)),
            nn.MaxPool2d(3, stride=2),
        ]
    )


def _block_8(inputs: int, pool: nn.Module) -> Branches:
    """Block of 8 × 8 maps."""
    return Branches(
        [
            _chain(inputs, (320, 1, 1)),
            nn.Sequential(_chain(inputs, (384, 1, 1)), _across_and_down()),
            nn.Sequential(_chain(inputs, (448, 1, 1), (384, 3, 3)), _across_and_down()),
            nn.Sequential(pool, _chain(inputs, (192, 1, 1))),
        ]
    )


def _across_and_down() -> Branches:
    return Branches([_chain(384, (384, 1, 3)), _chain(384, (384, 3, 1))])
