"""KID: how far apart two sets of images are, by a kernel on Inception features."""

from typing import Any, NamedTuple

import numpy as np
import torch

from unweave.data.grid import Array
from unweave.errors import DataError
from unweave.io.arguments import numpy_rng
from unweave.nets.device import chosen_device
from unweave.quality.features import Weights, extract_inception, of_all
from unweave.quality.inception import WIDTHS
from unweave.quality.sets import Images

__all__ = ["KID", "kid", "kid_of_features", "squared_mmd"]


class KID(NamedTuple):
    """Mean and standard deviation over subsets."""

    mean: float
    std: float


def kid(
    real: Images,
    generated: Images,
    *,
    subsets: int = 100,
    subset_size: int = 1_000,
    seed: int = 0,
    features: int = WIDTHS[-1],
    weights: Weights = None,
    device: str | torch.device | None = None,
) -> KID:
    """Kernel inception distance of two sets of images: `squared_mmd` of `inception_features`.

    Unlike FID it does not depend on the number of images, but for its noise.

    Args:
        real: Images `[N, H, W, C]`, see `Images`.
        generated: The images to judge, in the same form.
        subsets: How often images are drawn from both sets.
        subset_size: How many from each, without replacement.
        seed: Draws them.
        features: 2048 is what is published.
        weights: The file with the weights or the network, see `inception_features`.
        device: By default a GPU where there is one.

    Returns:
        Mean and standard deviation over subsets; the mean may be slightly negative.

    References:
        Bińkowski et al., Demystifying MMD GANs, arXiv:1801.01401.
    """
    extract = extract_inception(features, weights, device)
    return kid_of_features(
        of_all(extract, real),
        of_all(extract, generated),
        subsets=subsets,
        subset_size=subset_size,
        seed=seed,
        device=device,
    )


def kid_of_features(
    real: Any,
    generated: Any,
    *,
    subsets: int = 100,
    subset_size: int = 1_000,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> KID:
    """KID from features `[N, d]` and `[N', d]`; see `kid`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(60, 8)), rng.normal(1, 1, (80, 8))
        >>> kid_of_features(x, x, subsets=20, subset_size=40).mean < 0.1
        True
        >>> kid_of_features(x, y, subsets=20, subset_size=40).mean > 2
        True
    """
    place = chosen_device(device)
    x, y = (
        torch.as_tensor(np.asarray(side, np.float64), device=place) for side in (real, generated)
    )
    fewest = min(len(x), len(y))
    if not 2 <= subset_size <= fewest:
        raise DataError(
            f"a subset must have from 2 to {fewest:,} images, as many as there are of each kind, "
            f"but got {subset_size=}"
        )
    rng = numpy_rng(seed)
    values = [
        squared_mmd(
            x[torch.as_tensor(rng.choice(len(x), subset_size, replace=False), device=place)],
            y[torch.as_tensor(rng.choice(len(y), subset_size, replace=False), device=place)],
        )
        for _ in range(subsets)
    ]
    return KID(float(np.mean(values)), float(np.std(values)))


def squared_mmd(x: Array, y: Array) -> float:
    """The squared maximum mean discrepancy of features `[n, d]` and `[n, d]`, without bias.

        MMD² = Σ_{i≠j} [k(x_i, x_j) + k(y_i, y_j)] / (n (n - 1)) - 2 Σ_ij k(x_i, y_j) / n²

    with the kernel k(a, b) = (aᵀb / d + 1)³.
    """
    n, d = x.shape
    within = sum(
        kernel.sum() - kernel.diagonal().sum()
        for kernel in ((x @ x.T / d + 1) ** 3, (y @ y.T / d + 1) ** 3)
    )
    return float(within / (n * (n - 1)) - 2 * ((x @ y.T / d + 1) ** 3).mean())
