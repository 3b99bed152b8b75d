"""Input images of models: shape checks and random subsets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unweave.analysis.latents import SelectionError
from unweave.io.arguments import numpy_rng, renamed_attribute
from unweave.models.rows import InputError
from unweave.text import size_text

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset

__all__ = ["NUM_SAMPLED", "ShapeError", "check_shape", "sample_rows", "shape_mismatch"]

NUM_SAMPLED = 3_000
"""Number of images on which models are compared; correlations are then accurate to about 0.02."""


class ShapeError(InputError):
    """Images whose shape does not match the models.

    Args:
        expected: Height, width and channels that the models expect.
        found: Height, width and channels of the given images.
        what: Name or description of the data set or array.
    """

    def __init__(self, expected: Sequence[int], found: Sequence[int], what: str) -> None:
        self.expected, self.found = tuple(expected), tuple(found)
        super().__init__(
            f"{shape_mismatch(expected, found, what)}; use images like those they were trained on",
            subject=what,
            value=self.found,
        )

    takes = renamed_attribute("takes", "expected")


def shape_mismatch(expected: Sequence[int], found: Sequence[int], what: str) -> str:
    """Return an error message if the shape of images does not match the models, else "".

    Example:
        >>> shape_mismatch((64, 64, 3), (64, 64, 1), "dsprites")
        'dsprites has images of 64 × 64 × 1, but these models expect 64 × 64 × 3'
        >>> shape_mismatch((64, 64, 1), (64, 64, 1), "dsprites")
        ''
    """
    if tuple(found) == tuple(expected):
        return ""
    return (
        f"{what} has images of {size_text(found)}, but these models expect {size_text(expected)}"
    )


def check_shape(expected: Sequence[int], found: Sequence[int], what: str) -> None:
    """Raise a `ShapeError` if the shape of images does not match the models."""
    if shape_mismatch(expected, found, what):
        raise ShapeError(expected, found, what)


def sample_rows(data: "Dataset", rows: int = NUM_SAMPLED, seed: int = 0) -> np.ndarray:
    """Sample image indices without replacement; smaller samples are prefixes of larger ones."""
    if rows < 2:
        raise SelectionError(
            f"rows must be at least 2, got {rows}",
            subject="rows",
            value=rows,
        )
    return numpy_rng(seed).permutation(data.support)[:rows]
