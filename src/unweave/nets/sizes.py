"""Image sizes of convolutional networks: number of stride-2 layers, feature maps and padding."""

import math
from typing import NamedTuple

from unweave.errors import UnweaveError
from unweave.text import size_text

__all__ = ["MAX_CHANNELS", "MAX_SIDE", "MIN_SIDE", "FeatureMap", "Shape", "feature_map"]

Shape = tuple[int, int, int]
"""Height, width and channels of images."""
MIN_SIDE, MAX_SIDE = 16, 256
"""Smallest and largest height and width of images, in pixels."""
MAX_CHANNELS = 1024


class FeatureMap(NamedTuple):
    """The smallest feature map of a convolutional network.

    Args:
        halvings: Number of stride-2 layers between the image and the map.
        height: Height of the map.
        width: Width of the map.
        margins: Padding of the image (left, right, top, bottom) that makes its sides divisible.
    """

    halvings: int
    height: int
    width: int
    margins: tuple[int, int, int, int]

    @property
    def cells(self) -> int:
        """Number of positions of the map."""
        return self.height * self.width

    @property
    def crop(self) -> tuple[int, int, int, int]:
        """Negative margins, which undo the padding."""
        left, right, top, bottom = self.margins
        return -left, -right, -top, -bottom


def feature_map(shape: Shape) -> FeatureMap:
    """Return the feature map of images, as close to 16 positions as halving allows.

    Square images of 16, 32, 64, 128 and 256 pixels have 4 × 4 positions and are not padded.

    >>> feature_map((64, 64, 1))
    FeatureMap(halvings=4, height=4, width=4, margins=(0, 0, 0, 0))
    >>> feature_map((100, 60, 5))
    FeatureMap(halvings=4, height=7, width=4, margins=(2, 2, 6, 6))
    """
    height, width, channels = shape
    if min(height, width) < MIN_SIDE or max(height, width) > MAX_SIDE:
        raise UnweaveError(
            f"convolutional networks need images of {MIN_SIDE} to {MAX_SIDE} pixels on each side, "
            f"got {size_text(shape)}; resize the images, or use architecture='mlp'",
            subject="shape",
            value=shape,
        )
    if channels > MAX_CHANNELS:
        raise UnweaveError(
            f"convolutional networks need images with at most {MAX_CHANNELS:,} channels, got "
            f"{channels:,}; select channels first",
            subject="shape",
            value=shape,
        )
    halvings = math.ceil(math.log2(height * width) / 2 - 2.5)
    step = 2**halvings
    rows, columns = math.ceil(height / step), math.ceil(width / step)
    above, beside = rows * step - height, columns * step - width
    left, top = beside // 2, above // 2
    return FeatureMap(halvings, rows, columns, (left, beside - left, top, above - top))
