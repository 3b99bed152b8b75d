"""Distances between two sets of images: FID, KID and a random-network distance."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unweave.data.archives import read_npz, reading
from unweave.data.grid import Array
from unweave.errors import DataError
from unweave.io.arguments import numpy_rng
from unweave.io.writing import whole_file
from unweave.nets.device import chosen_device
from unweave.quality.features import Weights, extract_inception, extract_random, of_all
from unweave.quality.images import Images
from unweave.quality.inception import WIDTHS

__all__ = [
    "KID",
    "Statistics",
    "fid",
    "frechet_distance",
    "frechet_distance_of_features",
    "kid",
    "kid_of_features",
    "random_network_distance",
    "squared_mmd",
    "statistics",
]

MAX_BYTES = 1 << 30
"""Largest file of saved statistics, in bytes; 2,048 features take 34 MB."""


@dataclass(frozen=True, eq=False, slots=True)
class Statistics:
    """Mean `[d]` and covariance `[d, d]` of features, in float64.

    Example:
        >>> Statistics.of([[0.0, 1.0], [2.0, 5.0]])
        Statistics(mean=array([1., 3.]), covariance=array([[2., 4.], [4., 8.]]))
    """

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, features: Any) -> "Statistics":
        """Compute the statistics of features `[N, d]`, with N at least 2."""
        return cls.of_batches([torch.as_tensor(np.asarray(features))])

    @classmethod
    def of_batches(cls, features: Iterable[Tensor]) -> "Statistics":
        """Compute the statistics of batches of features `[n, d]` without storing them.

        With n images of mean m and scatter matrix S so far, and n', m', S' of the next batch,

            m ← m + (m' - m) n' / (n + n')    S ← S + S' + (m' - m)(m' - m)ᵀ n n' / (n + n')

        which is numerically stable for large means. The covariance is S / (N - 1).
        """
        count = 0
        mean, scatter = torch.zeros(()), torch.zeros(())
        for batch in features:
            rows = batch.double()
            centre = rows.mean(0)
            step = centre - mean.to(centre)
            total = count + len(rows)
            scatter = scatter.to(centre) + (rows - centre).T @ (rows - centre)
            scatter += torch.outer(step, step) * (count * len(rows) / total)
            mean = mean.to(centre) + step * (len(rows) / total)
            count = total
        if count < 2:
            raise DataError(
                f"a covariance needs at least 2 images, got {count}",
                subject="images",
                value=count,
            )
        return cls(mean.cpu().numpy(), (scatter / (count - 1)).cpu().numpy())

    def save(self, path: str | Path) -> None:
        """Write an `.npz` file with `mu` and `sigma`, as other FID implementations do."""
        with whole_file(Path(path)) as temporary, temporary.open("wb") as file:
            np.savez(file, mu=self.mean, sigma=self.covariance)

    @classmethod
    def load(cls, path: str | Path) -> "Statistics":
        """Read an `.npz` file with `mu` and `sigma`."""
        with reading(Path(path)):
            stored = read_npz(Path(path), MAX_BYTES)
            mean, covariance = (_numbers(stored[name]) for name in ("mu", "sigma"))
            if mean.ndim != 1 or covariance.shape != 2 * mean.shape:
                raise ValueError(
                    f"the shapes of mu {list(mean.shape)} and sigma {list(covariance.shape)} "
                    "do not match"
                )
        return cls(mean, covariance)


def fid(
    real: Images | Statistics,
    generated: Images | Statistics,
    *,
    features: int = WIDTHS[-1],
    weights: Weights = None,
    device: str | torch.device | None = None,
) -> float:
    """Fréchet inception distance (FID) between two sets of images; 0 means equal statistics.

        FID = ‖μ1 - μ2‖² + tr(Σ1 + Σ2 - 2 (Σ1 Σ2)^½)

    with means μ and covariances Σ of `inception_features`.

    Args:
        real: Images `[N, H, W, C]`, see `Images`, or their `statistics`.
        generated: Images to evaluate, in the same form.
        features: Number of features: 2048 (default) for published values, or 64, 192 or 768.
        weights: File with the weights or the network, see `inception_features`.
        device: Device to use (default: a GPU if available).

    Notes:
        FID decreases as the number of images grows, so compare only values from equal numbers.
        With fewer images than features the covariances are singular, which is handled correctly.

    References:
        Heusel et al., GANs Trained by a Two Time-Scale Update Rule, arXiv:1706.08500.
    """
    sides = (real, generated)
    if any(not isinstance(side, Statistics) for side in sides):
        extract = extract_inception(features, weights, device)
    one, other = (
        side if isinstance(side, Statistics) else Statistics.of_batches(extract(side))
        for side in sides
    )
    return frechet_distance(one, other, chosen_device(device))


def statistics(
    images: Images,
    *,
    features: int = WIDTHS[-1],
    weights: Weights = None,
    device: str | torch.device | None = None,
) -> Statistics:
    """Compute the mean and covariance of image features, to reuse in several calls of `fid`."""
    return Statistics.of_batches(extract_inception(features, weights, device)(images))


def frechet_distance(
    first: Statistics, second: Statistics, device: str | torch.device = "cpu"
) -> float:
    """Squared Fréchet (2-Wasserstein) distance between two Gaussians.

        d² = ‖μ1 - μ2‖² + tr(Σ1 + Σ2 - 2 (Σ1 Σ2)^½)

    With Σ1 = A Aᵀ and Σ2 = B Bᵀ, the trace of the root is the sum of the singular values of AᵀB.
    This avoids the square root of a product, so singular covariances are not a problem.

    Args:
        first: Mean and covariance of the first Gaussian.
        second: Mean and covariance of the second Gaussian.
        device: Device for the roots of the covariances, which take most of the time.

    Example:
        >>> one = Statistics(np.zeros(2), np.eye(2))
        >>> round(frechet_distance(one, Statistics(np.array([3.0, 4.0]), 4 * np.eye(2))), 12)
        27.0
    """
    widths = len(first.mean), len(second.mean)
    if widths[0] != widths[1]:
        raise DataError(
            f"both sets must have the same number of features, got {widths[0]} and {widths[1]}",
            subject="features",
            value=widths,
        )
    shift = float(np.square(first.mean - second.mean).sum())
    spread = float(np.trace(first.covariance) + np.trace(second.covariance))
    common = np.linalg.svd(_root(first, device).T @ _root(second, device), compute_uv=False).sum()
    return max(shift + spread - 2 * float(common), 0.0)  # rounding can make it negative


def frechet_distance_of_features(
    first: Any, second: Any, device: str | torch.device = "cpu"
) -> float:
    """Fréchet distance between features `[N, d]` and `[N', d]`, fast if N and N' are less than d.

    With A the centred rows divided by √(N - 1), Σ = Aᵀ A, and tr (Σ1 Σ2)^½ is the sum of the
    singular values of A1 A2ᵀ, which has shape `[N, N']`.

    Example:
        >>> x = np.array([[0.0, 0, 1], [2, 0, 1]])
        >>> round(frechet_distance_of_features(x, 2 * x + [[0, 1, 0]]), 12)
        5.0
    """
    x, y = (np.asarray(side, np.float64) for side in (first, second))
    if x.shape[1] != y.shape[1] or max(len(x), len(y)) >= x.shape[1] or min(len(x), len(y)) < 2:
        one, other = (
            Statistics.of_batches([torch.as_tensor(side, device=device)]) for side in (x, y)
        )
        return frechet_distance(one, other, device)
    a, b = ((side - side.mean(0)) / np.sqrt(len(side) - 1) for side in (x, y))
    shift = np.square(x.mean(0) - y.mean(0)).sum()
    common = np.linalg.svd(a @ b.T, compute_uv=False).sum()
    return max(float(shift + np.square(a).sum() + np.square(b).sum() - 2 * common), 0.0)


def _numbers(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError("mu and sigma must be finite numbers")
    return array.astype(np.float64)


def _root(statistics: Statistics, device: str | torch.device) -> np.ndarray:
    """Return A with A Aᵀ = covariance, without directions whose variance is only rounding."""
    covariance = torch.as_tensor(statistics.covariance, device=device)
    values, vectors = (part.cpu().numpy() for part in torch.linalg.eigh(covariance))
    significant = values > values[-1] * len(values) * np.finfo(np.float64).eps
    return vectors[:, significant] * np.sqrt(values[significant])


class KID(NamedTuple):
    """Mean and standard deviation of the KID over subsets."""

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
    """Kernel inception distance (KID): `squared_mmd` of the `inception_features` of two sets.

    Unlike FID, its expected value does not depend on the number of images.

    Args:
        real: Images `[N, H, W, C]`, see `Images`.
        generated: Images to evaluate, in the same form.
        subsets: Number of random subsets (default 100).
        subset_size: Images per subset from each set, without replacement (default 1,000).
        seed: Random seed of the subsets (default 0).
        features: Number of features: 2048 (default) for published values, or 64, 192 or 768.
        weights: File with the weights or the network, see `inception_features`.
        device: Device to use (default: a GPU if available).

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
    """Compute the KID from features `[N, d]` and `[N', d]`; see `kid`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(60, 8)), rng.normal(1, 1, (80, 8))
        >>> kid_of_features(x, x, subsets=20, subset_size=40).mean < 0.1
        True
        >>> kid_of_features(x, y, subsets=20, subset_size=40).mean > 2
        True
    """
    chosen = chosen_device(device)
    x, y = (
        torch.as_tensor(np.asarray(side, np.float64), device=chosen) for side in (real, generated)
    )
    smaller = min(len(x), len(y))
    if not 2 <= subset_size <= smaller:
        raise DataError(
            f"subset_size must be between 2 and {smaller:,}, the number of images in the smaller "
            f"set, got {subset_size}",
            subject="subset_size",
            value=subset_size,
        )
    rng = numpy_rng(seed)
    values = [
        squared_mmd(
            x[torch.as_tensor(rng.choice(len(x), subset_size, replace=False), device=chosen)],
            y[torch.as_tensor(rng.choice(len(y), subset_size, replace=False), device=chosen)],
        )
        for _ in range(subsets)
    ]
    return KID(float(np.mean(values)), float(np.std(values)))


def squared_mmd(x: Array, y: Array) -> float:
    """Unbiased estimate of the squared maximum mean discrepancy of features `[n, d]`.

        MMD² = Σ_{i≠j} [k(x_i, x_j) + k(y_i, y_j)] / (n (n - 1)) - 2 Σ_ij k(x_i, y_j) / n²

    with the kernel k(a, b) = (aᵀb / d + 1)³.
    """
    n, d = x.shape
    within = sum(
        kernel.sum() - kernel.diagonal().sum()
        for kernel in ((x @ x.T / d + 1) ** 3, (y @ y.T / d + 1) ** 3)
    )
    return float(within / (n * (n - 1)) - 2 * ((x @ y.T / d + 1) ** 3).mean())


def random_network_distance(
    real: Images,
    generated: Images,
    *,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> float:
    """Fréchet distance between two sets of images, using features of an untrained network.

    The network has four 4 × 4 convolutions with stride 2, ReLU and fixed normal weights of
    variance 2 / fan-in; the features are the averages of all 352 feature maps over positions.

    This is **not FID** and is not comparable with any published value: the features capture
    colours, edges and textures at four scales, but not objects. It separates blurred or noisy
    images from sharp ones without pretrained weights, if the data set, the image size and the
    number of images are the same.

    Args:
        real: Images `[N, H, W, C]`, at least 16 × 16, see `Images`.
        generated: Images to evaluate, in the same form.
        seed: Random seed of the weights (default 0); compare only values with the same seed.
        device: Device to use (default: a GPU if available).

    References:
        Naeem et al., Reliable Fidelity and Diversity Metrics for Generative Models,
        arXiv:2002.09797, who also compare sets of images with a random network.

    Example:
        >>> import numpy as np
        >>> images = np.random.default_rng(0).random((64, 16, 16, 1))
        >>> abs(random_network_distance(images, images)) < 1e-9
        True
        >>> random_network_distance(images, images / 2) > 1
        True
    """
    extract = extract_random(seed, chosen_device(device))
    return frechet_distance(
        Statistics.of_batches(extract(real)), Statistics.of_batches(extract(generated))
    )
