"""FID of reconstructions: the distance between the sets of images and reconstructions."""

import hashlib
from functools import cache
from typing import Any

import numpy as np

from unweave.metrics.base import Metric, check_codes, check_given, check_rows

__all__ = ["FID", "fid"]

PUBLISHED = 2048
SUBSET = 1_000

_LAST_FEATURES: dict[tuple[Any, ...], tuple[Any, Any]] = {}
"""Features of the most recently scored images, which the next model usually shares."""


def fid(
    codes: Any,
    factors: Any = None,
    seed: int = 0,
    *,
    images: Any = None,
    reconstructions: Any = None,
    features: int = PUBLISHED,
    weights: Any = None,
    device: Any = None,
) -> dict[str, float]:
    """Fréchet and kernel inception distance (FID, KID) between images and reconstructions.

        FID = ‖μ1 - μ2‖² + tr(Σ1 + Σ2 - 2 (Σ1 Σ2)^½)        KID = MMD², kernel (aᵀb / d + 1)³

    with means μ and covariances Σ of Inception features (see `unweave.quality`).

    Args:
        codes: Codes `[n, d]`, one for each image; only their number is used.
        factors: Not used.
        seed: Random seed for sampling the subsets of KID.
        images: Images `[n, H, W, C]`, grey or colour, bytes 0 … 255 or floats in [0, 1]; required.
        reconstructions: Decoded codes; required. Both may be iterables of arrays.
        features: Number of Inception features; 2048 as published, or 64, 192 or 768 for tests.
        weights: Network, or path of its weights (default: from an installed package, else
            downloaded once).
        device: Device (default: a GPU if available).

    Returns:
        `fid`; `kid` and `kid_std`, mean and standard deviation over 100 subsets of 1,000 images
        (or all, if fewer); and `images`, the number of images.

    Notes:
        FID decreases with the number of images, so compare only values for equal numbers. Images
        are not compressed to JPEG first, unlike in the code of MS-VAE.

    References:
        Heusel et al., GANs Trained by a Two Time-Scale Update Rule, arXiv:1706.08500; Bińkowski
        et al., Demystifying MMD GANs, arXiv:1801.01401.
    """
    from unweave.nets.device import chosen_device
    from unweave.quality.distances import frechet_distance_of_features, kid_of_features
    from unweave.quality.features import extract_inception, of_all

    codes = check_codes(codes)
    check_given("fid", images=images, reconstructions=reconstructions)
    place = chosen_device(device)
    network = weights if weights is not None else _published_network()
    extract = extract_inception(features, network, place, progress=False)
    key = _key(images, features, device, id(network))
    _, real = _LAST_FEATURES.get(key, (None, None))
    if real is None:
        real = of_all(extract, images)
        _LAST_FEATURES.clear()
        # Keeping the network prevents another network from getting the same id.
        _LAST_FEATURES.update({key: (network, real)} if key else {})
    generated = of_all(extract, reconstructions)
    check_rows(codes, images=real, reconstructions=generated)
    distance = frechet_distance_of_features(real, generated, place)
    subset = min(SUBSET, len(codes))
    kernel = kid_of_features(real, generated, subset_size=subset, seed=seed, device=place)
    scores = {"fid": distance, "kid": kernel.mean, "kid_std": kernel.std}
    return {**scores, "images": float(len(codes))}


@cache
def _published_network() -> Any:
    """Load the network once per process."""
    from unweave.quality.features import load_inception

    return load_inception()


def _key(images: Any, *settings: Any) -> tuple[Any, ...]:
    """Return a cache key for features, empty unless the images are an array of bytes."""
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        return ()
    content = hashlib.sha256(np.ascontiguousarray(images).data).hexdigest()
    return content, images.shape, *map(str, settings)


FID = Metric(
    function=fid,
    label="FID",
    explanation="Distance between reconstructed and original images as sets, in the features of "
    "an image classifier. Compare only values for equal numbers of images.",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs="reconstructions",
    cost="hours",
    failure="It compares sets: permuting the reconstructions does not change the score.",
)
