"""The features of sets of images, batch by batch, on a CPU or GPU."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from unweave.errors import DataError
from unweave.nets.device import chosen_device
from unweave.quality.inception import WIDTHS, Inception, check_width
from unweave.quality.inception_weights import load_inception
from unweave.quality.sets import Images, as_bytes, batches, in_colour, watched

__all__ = ["Extract", "Weights", "extract_inception", "inception_features", "of_all"]

Extract = Callable[[Images], Iterator[Tensor]]
"""From images to their features `[n, d]`, a batch at a time."""

Weights: TypeAlias = str | Path | Inception | None
"""A file with the weights of the Inception network, see `load_inception`, or the network itself;
None takes the file of an installed package, or else one that is fetched once."""


def inception_features(
    images: Images,
    features: int = WIDTHS[-1],
    *,
    weights: Weights = None,
    device: str | torch.device | None = None,
) -> np.ndarray:
    """What the Inception network of FID says of each image.

    Images are resized to 299 × 299 as TensorFlow 1 does it and scaled to (x - 128) / 128; grey
    ones get three equal channels, and floats are rounded to bytes, as if they had been written to
    files. Features are averages over positions.

    Args:
        images: `[N, H, W, C]`, see `Images`.
        features: How many: 64, 192, 768 or 2048.
        weights: The file with the weights, or a network of `load_inception`, which is then not
            loaded again; by default the file of an installed package, or else one that is fetched
            once (81 MB).
        device: By default a GPU where there is one.

    Returns:
        float32 `[N, features]`

    References:
        Szegedy et al., Rethinking the Inception Architecture for Computer Vision,
        arXiv:1512.00567.
    """
    return of_all(extract_inception(features, weights, device), images)


def extract_inception(
    features: int,
    weights: Weights,
    device: str | torch.device | None,
    progress: bool = True,
) -> Extract:
    """What gives the features of the Inception network."""
    check_width(features)
    place = chosen_device(device)
    loaded = weights if isinstance(weights, Inception) else load_inception(weights)
    network = loaded.to(place)
    # Small batches stay in a CPU's cache.
    size = 8 if place.type == "cpu" else 256

    def extract(images: Images) -> Iterator[Tensor]:
        for batch in (watched if progress else batches)(images, size):
            # TensorFloat-32, a GPU's default, is too coarse to compare with published values.
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                yield network(in_colour(as_bytes(batch.to(place))), features)

    return extract


def of_all(extract: Extract, images: Images) -> np.ndarray:
    """The features of all images, `[N, d]`."""
    parts = [part.cpu().numpy() for part in extract(images)]
    if not parts:
        raise DataError("there are no images to look at")
    return np.concatenate(parts)
