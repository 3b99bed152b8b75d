"""FID: how far apart two sets of images are, seen as Gaussians of Inception features."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unweave.data.archives import read_npz, reading
from unweave.errors import DataError
from unweave.io.writing import whole_file
from unweave.nets.device import chosen_device
from unweave.quality.features import Extract, Weights, extract_inception
from unweave.quality.inception import WIDTHS
from unweave.quality.sets import Images

__all__ = [
    "Statistics",
    "fid",
    "frechet_distance",
    "frechet_distance_of_features",
    "statistics",
]

MOST_BYTES = 1 << 30
"""Of saved statistics; those of 2,048 features have 34 MB."""


@dataclass(frozen=True, eq=False, slots=True)
class Statistics:
    """The mean `[d]` and covariance `[d, d]` of features, in float64.

    Example:
        >>> Statistics.of([[0.0, 1.0], [2.0, 5.0]])
        Statistics(mean=array([1., 3.]), covariance=array([[2., 4.], [4., 8.]]))
    """

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, features: Any) -> "Statistics":
        """Those of features `[N, d]`, at least two."""
        return cls.of_batches([torch.as_tensor(np.asarray(features))])

    @classmethod
    def of_batches(cls, features: Iterable[Tensor]) -> "Statistics":
        """Those of features that come in batches `[n, d]`, none of which is kept.

        With n images of mean m and scatter S seen before, and n', m', S' of a batch,

            m ← m + (m' - m) n' / (n + n')    S ← S + S' + (m' - m)(m' - m)ᵀ n n' / (n + n')

        which loses no digits where means are large. The covariance is S / (N - 1).
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
            raise DataError(f"a covariance needs at least two images, but got {count}")
        return cls(mean.cpu().numpy(), (scatter / (count - 1)).cpu().numpy())

    def save(self, path: str | Path) -> None:
        """Write them to a `.npz` file with `mu` and `sigma`, as other programs for FID do."""
        with whole_file(Path(path)) as temporary, temporary.open("wb") as file:
            np.savez(file, mu=self.mean, sigma=self.covariance)

    @classmethod
    def load(cls, path: str | Path) -> "Statistics":
        """Read such a file."""
        with reading(Path(path)):
            stored = read_npz(Path(path), MOST_BYTES)
            mean, covariance = (_numbers(stored[name]) for name in ("mu", "sigma"))
            if mean.ndim != 1 or covariance.shape != 2 * mean.shape:
                raise ValueError(
                    f"its mean is {list(mean.shape)} and its covariance {list(covariance.shape)}"
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
    """Fréchet inception distance of two sets of images, 0 where they have the same features.

        FID = ‖μ1 - μ2‖² + tr(Σ1 + Σ2 - 2 (Σ1 Σ2)^½)

    with means μ and covariances Σ of `inception_features`.

    Args:
        real: Images `[N, H, W, C]`, see `Images`, or their `statistics`.
        generated: The images to judge, in the same form.
        features: 2048 is what is published; 64, 192 or 768 are for tests.
        weights: The file with the weights or the network, see `inception_features`.
        device: By default a GPU where there is one.

    Notes:
        It falls as the number of images grows: compare values of equally many. With fewer images
        than features the covariances are singular, which does no harm here.

    References:
        Heusel et al., GANs Trained by a Two Time-Scale Update Rule, arXiv:1706.08500.
    """
    sides = (real, generated)
    if any(not isinstance(side, Statistics) for side in sides):
        extract = extract_inception(features, weights, device)
    one, other = (side if isinstance(side, Statistics) else _seen(extract, side) for side in sides)
    return frechet_distance(one, other, chosen_device(device))


def statistics(
    images: Images,
    *,
    features: int = WIDTHS[-1],
    weights: Weights = None,
    device: str | torch.device | None = None,
) -> Statistics:
    """Mean and covariance of the features of images, for several comparisons; see `fid`."""
    return _seen(extract_inception(features, weights, device), images)


def frechet_distance(
    first: Statistics, second: Statistics, device: str | torch.device = "cpu"
) -> float:
    """Squared Fréchet (2-Wasserstein) distance of two Gaussians.

        d² = ‖μ1 - μ2‖² + tr(Σ1 + Σ2 - 2 (Σ1 Σ2)^½)

    With Σ1 = A Aᵀ and Σ2 = B Bᵀ the trace of the root is the sum of the singular values of AᵀB, so
    that no root of a product is taken: singular covariances do no harm.

    Args:
        first: One Gaussian.
        second: The other.
        device: Where roots of covariances are taken, most of the work.

    Example:
        >>> one = Statistics(np.zeros(2), np.eye(2))
        >>> round(frechet_distance(one, Statistics(np.array([3.0, 4.0]), 4 * np.eye(2))), 12)
        27.0
    """
    if first.covariance.shape != second.covariance.shape:
        raise DataError(
            f"features must be of one kind, but there are {len(first.mean)} of one set and "
            f"{len(second.mean)} of the other"
        )
    shift = float(np.square(first.mean - second.mean).sum())
    spread = float(np.trace(first.covariance) + np.trace(second.covariance))
    common = np.linalg.svd(_root(first, device).T @ _root(second, device), compute_uv=False).sum()
    return max(shift + spread - 2 * float(common), 0.0)  # rounding may go below


def frechet_distance_of_features(
    first: Any, second: Any, device: str | torch.device = "cpu"
) -> float:
    """The distance of features `[N, d]` and `[N', d]`, quick where there are fewer than d of each.

    With A the rows less their mean over √(N - 1), Σ = Aᵀ A, and tr (Σ1 Σ2)^½ is the sum of the
    singular values of A1 A2ᵀ, which has as many rows as there are images.

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
        raise ValueError("it holds other things than finite numbers")
    return array.astype(np.float64)


def _root(statistics: Statistics, device: str | torch.device) -> np.ndarray:
    """A, with A Aᵀ the covariance, without the directions in which only rounding varies."""
    covariance = torch.as_tensor(statistics.covariance, device=device)
    values, vectors = (part.cpu().numpy() for part in torch.linalg.eigh(covariance))
    kept = values > values[-1] * len(values) * np.finfo(np.float64).eps
    return vectors[:, kept] * np.sqrt(values[kept])


def _seen(extract: Extract, images: Images) -> Statistics:
    return Statistics.of_batches(extract(images))
