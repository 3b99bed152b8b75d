"""Which images of a data set models are compared on, drawn and explored with."""

from typing import TYPE_CHECKING

import numpy as np

from unweave.analysis.latents import SelectionError
from unweave.io.arguments import numpy_rng

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset

__all__ = ["NUM_DRAWN", "drawn_rows"]

NUM_DRAWN = 3_000
"""Images that models encode to be compared; correlations are then known to about 0.02."""


def drawn_rows(data: "Dataset", rows: int = NUM_DRAWN, seed: int = 0) -> np.ndarray:
    """Numbers of images, drawn once each; of one seed, fewer are the first of more.

    Args:
        data: The data set.
        rows: How many; all where there are fewer.
        seed: Of the draw.
    """
    if rows < 2:
        raise SelectionError(f"models are compared on at least 2 images, but got {rows=}")
    return numpy_rng(seed).permutation(data.support)[:rows]
