"""FID of reconstructions: how far they are from the data, as a set of images."""

import hashlib
from functools import cache
from typing import Any

import numpy as np

from unweave.metrics.base import Metric, MetricError, check_codes

__all__ = ["FID", "fid"]

PUBLISHED = 2048
SUBSET = 1_000

_LAST_SEEN: dict[tuple[Any, ...], tuple[Any, Any]] = {}
"""The features of the images that were scored last: the next model mostly has the same."""


def fid(
    codes: Any,
    factors: Any = None,  # noqa: ARG001 - every metric takes them
    seed: int = 0,
    *,
    images: Any = None,
    reconstructions: Any = None,
    features: int = PUBLISHED,
    weights: Any = None,
    device: Any = None,
) -> dict[str, float]:
    """Fréchet inception distance of images and their reconstructions, and the kernel one.

        FID = ‖μ1 - μ2‖² + tr(Σ1 + Σ2 - 2 (Σ1 Σ2)^½)        KID = MMD², kernel (aᵀb / d + 1)³

    with means μ and covariances Σ of Inception features, see `unweave.quality`.

    Args:
        codes: `[n, d]`, only checked: there must be one for each image.
        factors: Not used.
        seed: Draws the subsets of KID.
        images: `[n, H, W, C]`, bytes 0 … 255 or floats in [0, 1], grey or coloured; must be given.
        reconstructions: What the codes decode to; must be given. Both may be iterables of arrays.
        features: 2048 is what is published; 64, 192 or 768 are for tests.
        weights: The file with the weights of the network, or the network; by default those of an
            installed package, or else fetched once.
        device: By default a GPU where there is one.

    Returns:
        `fid`; `kid` and `kid_std`, mean and standard deviation over 100 subsets of 1,000 images,
        or of all where there are fewer; and `images`, how many there were.

    Notes:
        FID falls with the number of images: compare values of equally many. There is no JPEG in
        between, which the code of MS-VAE has.

    References:
        Heusel et al., GANs Trained by a Two Time-Scale Update Rule, arXiv:1706.08500; Bińkowski
        et al., Demystifying MMD GANs, arXiv:1801.01401.
    """
    from unweave.nets.device import chosen_device
    from unweave.quality.features import extract_inception, of_all
    from unweave.quality.fid import frechet_distance_of_features
    from unweave.quality.kid import kid_of_features

    rows = len(check_codes(codes))
    if images is None or reconstructions is None:
        raise MetricError("FID needs images and reconstructions beside the codes")
    place = chosen_device(device)
    network = weights if weights is not None else _published_network()
    extract = extract_inception(features, network, place, progress=False)
    key = _key(images, features, device, id(network))
    _, real = _LAST_SEEN.get(key, (None, None))
    if real is None:
        real = of_all(extract, images)
        _LAST_SEEN.clear()
        # While the network is kept too, no other one can have its id.
        _LAST_SEEN.update({key: (network, real)} if key else {})
    generated = of_all(extract, reconstructions)
    if not rows == len(real) == len(generated):
        raise MetricError(
            f"there must be as many images and reconstructions as codes, but got {len(real):,}, "
            f"{len(generated):,} and {rows:,}"
        )
    distance = frechet_distance_of_features(real, generated, place)
    subset = min(SUBSET, rows)
    kernel = kid_of_features(real, generated, subset_size=subset, seed=seed, device=place)
    scores = {"fid": distance, "kid": kernel.mean, "kid_std": kernel.std}
    return {**scores, "images": float(rows)}


@cache
def _published_network() -> Any:
    """The network, read once for all models of a process."""
    from unweave.quality.inception_weights import load_inception

    return load_inception()


def _key(images: Any, *settings: Any) -> tuple[Any, ...]:
    """What features depend on; nothing where images are not bytes in memory."""
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        return ()
    content = hashlib.sha256(np.ascontiguousarray(images).data).hexdigest()
    return content, images.shape, *map(str, settings)


FID = Metric(
    name="fid",
    label="FID",
    explanation="How far the reconstructed images are from the images, as sets, seen by a "
    "network that knows objects. Compare values of equally many images only.",
    function=fid,
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs="reconstructions",
    cost="hours",
    reference="Heusel et al., GANs Trained by a Two Time-Scale Update Rule, arXiv:1706.08500",
    failure="It compares sets: images that are all reconstructed as one another score 0.",
)
