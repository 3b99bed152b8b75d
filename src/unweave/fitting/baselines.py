"""Baselines that models must beat: the mean image, and principal components of the images.

Shapes: n images, P pixels, d latents.
"""

from dataclasses import dataclass

import numpy as np

from unweave.data.dataset import Dataset
from unweave.io.arrays import on_host
from unweave.models.images import sample_rows
from unweave.models.rotation import RotationError, fit_rotation

__all__ = ["ROWS", "Baselines", "baselines", "unit_images"]

ROWS = 2_000
"""Number of images that models and baselines reconstruct."""


@dataclass(frozen=True, eq=False)
class Baselines:
    """Reconstruction errors that need no training, as mean squared errors of pixels in [0, 1].

        mean image   mean ‖x - x̄‖² / P
        PCA          mean ‖x - x̄ - Vₖ Vₖᵀ (x - x̄)‖² / P,    Vₖ the k first principal axes

    Args:
        mean_image: Error of the mean image, which is the pixel variance.
        pca: Errors of k = 0, …, d principal components, `[d + 1]`.
        codes: Codes of the images by d principal components, `[n, d]`.
        rows: Numbers of these images in the data set.
    """

    mean_image: float
    pca: np.ndarray
    codes: np.ndarray
    rows: np.ndarray

    def explained(self, error: float | np.ndarray) -> np.ndarray:
        """Return the share of the variance that reconstructions with this error explain."""
        return 1 - np.asarray(error) / max(self.mean_image, np.finfo(float).tiny)

    def components(self, error: float) -> int:
        """Return how many principal components have at most this error; d + 1 if all have more."""
        return int(np.argmax(self.pca <= error)) if self.pca[-1] <= error else len(self.pca)

    def independent(self) -> np.ndarray:
        """Return the codes rotated to independent components (ICA), or unchanged if normal."""
        try:
            return np.asarray(fit_rotation(self.codes).encode(self.codes))
        except RotationError:
            return self.codes


def baselines(data: Dataset, latents: int, rows: int = ROWS) -> Baselines:
    """Compute the baselines for a sample of the images; see `Baselines`.

    Args:
        data: Images.
        latents: Number of principal components d.
        rows: Largest number of images, sampled without replacement.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> found = baselines(data, 10)
        >>> found.pca.shape, bool((np.diff(found.pca) < 0).all())
        ((11,), True)
        >>> found.components(found.pca[4])
        4
    """
    chosen = sample_rows(data, rows)
    images = unit_images(data, chosen).reshape(len(chosen), -1)
    images -= images.mean(0)
    # The axes are those of the smaller of two matrices: between images, or between pixels.
    wide = images.shape[1] > len(images)
    squares = images @ images.T if wide else images.T @ images
    values, vectors = np.linalg.eigh(squares.astype(np.float64))
    values, vectors = values[::-1].clip(0), vectors[:, ::-1]
    kept = min(latents, len(values))
    codes = vectors[:, :kept] * np.sqrt(values[:kept]) if wide else images @ vectors[:, :kept]
    total = values.sum()
    left = total - np.concatenate([[0.0], np.cumsum(values[:kept])])
    errors = np.pad(left.clip(0), (0, latents - kept), mode="edge") / images.size
    return Baselines(float(total / images.size), errors, codes, chosen)


def unit_images(data: Dataset, rows: np.ndarray) -> np.ndarray:
    """Return images as floats in [0, 1], `[n, H, W, C]`."""
    return on_host(data.images(rows)).astype(np.float32) / 255
