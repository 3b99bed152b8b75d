"""What a model makes of images, a batch at a time."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from unweave.data.dataset import Dataset

__all__ = ["Autoencoder", "reconstructions"]


class Autoencoder(Protocol):
    """What encodes and decodes, as trained models do."""

    def encode(self, images: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and log-variances `[n, d]` of images `[n, H, W, C]`."""
        ...

    def decode(self, codes: Any) -> np.ndarray:
        """Images `[n, H, W, C]` of codes `[n, d]`."""
        ...


def reconstructions(
    model: Autoencoder, data: Dataset, seed: int = 0, at_once: int = 500
) -> Iterator[np.ndarray]:
    """The images of all mean codes of a data set, in its order, for `fid(data, …)` and the like.

    Args:
        model: A trained model, or anything that encodes and decodes.
        data: The images.
        seed: Of images that are random given their factors.
        at_once: How many images are in a batch.

    Yields:
        float32 `[n, H, W, C]`
    """
    for start in range(0, len(data), at_once):
        rows = np.arange(start, min(start + at_once, len(data)))
        yield model.decode(model.encode(data.images(rows, seed))[0])
