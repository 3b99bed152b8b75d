"""Rotation of codes after training: an affine map of all codes, by ICA, PCA or varimax.

An autoencoder without noise and prior does not determine the axes of its codes: rotating the last
layer of the encoder and the first of the decoder changes neither its loss nor the norm of its
weights. A rotation chooses axes afterwards.

Shapes: n images, d latents, P pixels.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from unweave.errors import UnknownNameError, UnweaveError
from unweave.io.arguments import numpy_rng

__all__ = ["ROTATIONS", "AppliedRotation", "Rotation", "RotationError", "fit_rotation"]

ROTATIONS = ("ica", "pca", "varimax", "random")
MIN_VARIANCE = 0.01
"""Components with a smaller share of the largest component's variance are dropped."""
MAX_LATENTS = 10_000
RESTARTS = 5
MAX_ITERATIONS = 1_000
TOLERANCE = 1e-4
GAUSSIAN_LOGCOSH = 0.37456
"""E log cosh x for x ~ N(0, 1)."""
MIN_KURTOSIS = 0.2
"""Smallest excess kurtosis that counts as a deviation from a normal distribution."""


class RotationError(UnweaveError):
    """Codes or models for which a rotation would be meaningless."""


class AppliedRotation(NamedTuple):
    """Description of a rotation that is part of a model's weights.

    Args:
        kind: One of `ROTATIONS`.
        kept: Number of components that were kept; the other latents are constantly 0.
        converged: Whether the algorithm converged.
    """

    kind: str
    kept: int
    converged: bool

    def __str__(self) -> str:
        name = self.kind if self.kind in ("varimax", "random") else self.kind.upper()
        failed = "" if self.converged else ", which did not converge"
        return f"codes rotated by {name} ({self.kept} components{failed})"

    @classmethod
    def read(cls, value: Any) -> "AppliedRotation | None":
        """Return the description in the metadata of a file, which may contain anything."""
        if value is None:
            return None
        if (
            not isinstance(value, dict)
            or value.keys() != set(cls._fields)
            or value["kind"] not in ROTATIONS
            or type(value["kept"]) is not int
            or not 0 < value["kept"] <= MAX_LATENTS
            or type(value["converged"]) is not bool
        ):
            raise ValueError("its metadata has an invalid rotation")
        return cls(**value)


@dataclass(frozen=True, eq=False)
class Rotation:
    """An affine map of codes, y = (z - m) A, and its inverse on the components that it keeps.

    Dropped components are constantly 0, so that the number of latents does not change.

    Args:
        kind: One of `ROTATIONS`.
        mean: Mean code m, `[d]`.
        forward: Map A, `[d, d]`, with a zero column for each dropped component.
        backward: Map from y to z - m, `[d, d]`, with a zero row for each dropped component.
        kept: Number of components that are kept; they come first.
        converged: Whether the algorithm converged.
    """

    kind: str
    mean: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    kept: int
    converged: bool = True

    def encode(self, codes: Any) -> Any:
        """Rotate codes `[..., d]`."""
        return (codes - self.mean.astype(codes.dtype)) @ self.forward.astype(codes.dtype)

    def decode(self, rotated: Any) -> Any:
        """Return the original codes of rotated ones, `[..., d]`."""
        return rotated @ self.backward.astype(rotated.dtype) + self.mean.astype(rotated.dtype)

    @classmethod
    def of_components(
        cls, kind: str, mean: np.ndarray, components: np.ndarray, converged: bool = True
    ) -> Self:
        """Create a rotation from the columns of a map, `[d, k]` with k kept components."""
        latents, kept = components.shape
        forward, backward = np.zeros((2, latents, latents))
        forward[:, :kept] = components
        backward[:kept] = np.linalg.pinv(components)
        return cls(kind, mean, forward, backward, kept, converged)


def fit_rotation(codes: Any, kind: str = "ica", *, images: Any = None, seed: int = 0) -> Rotation:
    """Fit a rotation to codes.

    Components with less than 1 % of the largest variance are dropped.

    Args:
        codes: Codes `[n, d]`.
        kind: `"ica"` (independent components; FastICA with the contrast log cosh, the best of five
            restarts), `"pca"` (uncorrelated components in order of their variance), `"varimax"`
            (each image region depends on few components), or `"random"` (a random rotation of
            whitened codes, as a control).
        images: Images `[n, ...]`, for varimax.
        seed: Random seed.

    References:
        Hyvärinen, Fast and Robust Fixed-Point Algorithms for Independent Component Analysis, IEEE
        Transactions on Neural Networks 1999.
        Kaiser, The Varimax Criterion for Analytic Rotation in Factor Analysis, Psychometrika 1958.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> factors = rng.uniform(size=(2_000, 2))
        >>> mixed = factors @ [[0.8, -0.6], [0.6, 0.8]]
        >>> found = fit_rotation(mixed).encode(mixed)
        >>> abs(np.corrcoef(factors.T, found.T)[:2, 2:]).round(2).max(1)
        array([1., 1.])
    """
    if kind not in ROTATIONS:
        raise UnknownNameError("rotation", kind, ROTATIONS)
    z = np.asarray(codes, np.float64)
    if z.ndim != 2 or len(z) <= z.shape[1]:
        raise RotationError.must("codes", "be [n, d] with more rows than latents", z.shape)
    mean = z.mean(0)
    variances, axes = _principal_axes(z - mean)
    if kind == "pca":
        return Rotation.of_components(kind, mean, axes)
    whitening = axes / np.sqrt(variances)
    white = (z - mean) @ whitening
    generator = numpy_rng(seed)
    if kind == "random":
        return Rotation.of_components(
            kind, mean, whitening @ _orthogonal(len(variances), generator)
        )
    if kind == "varimax":
        if images is None:
            raise RotationError("varimax requires images; pass images=…", subject="images")
        pixels = np.asarray(images).reshape(len(z), -1)
        loadings = (pixels - pixels.mean(0, dtype=np.float64)).T @ white / len(z)
        turn, converged = varimax(loadings)
        return Rotation.of_components(kind, mean, whitening @ turn, converged)
    turn, converged = _independent_components(white, generator)
    _check_not_normal(white @ turn)
    return Rotation.of_components(kind, mean, whitening @ turn, converged)


def varimax(loadings: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the rotation R `[k, k]` that maximises the varimax criterion, and its convergence.

        V(Λ R) = Σ_l [mean_p Λ_pl⁴ - (mean_p Λ_pl²)²]

    Args:
        loadings: Loadings Λ `[P, k]`.
    """
    turn, before = np.eye(loadings.shape[1]), 0.0
    for _ in range(MAX_ITERATIONS):
        rotated = loadings @ turn
        gradient = loadings.T @ (rotated**3 - rotated * np.square(rotated).mean(0))
        left, values, right = np.linalg.svd(gradient)
        turn = left @ right
        if values.sum() <= before * (1 + 1e-10):
            return turn, True
        before = values.sum()
    return turn, False


def _principal_axes(centred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return variances and axes `[d, k]` of the principal components that are kept."""
    variances, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    variances, axes = variances[::-1], axes[:, ::-1]
    kept = variances > max(MIN_VARIANCE * variances[0], np.finfo(float).tiny)
    if not kept.any():
        raise RotationError("codes must vary, but all of them are constant", subject="codes")
    # The sign of an axis is arbitrary; its largest entry is positive here.
    axes = axes[:, kept]
    largest = np.take_along_axis(axes, abs(axes).argmax(0)[None], 0)
    return variances[kept], axes * np.sign(largest)


def _orthogonal(size: int, generator: np.random.Generator) -> np.ndarray:
    """Sample a random orthogonal matrix."""
    q, r = np.linalg.qr(generator.normal(size=(size, size)))
    return q * np.sign(np.diag(r))


def _check_not_normal(components: np.ndarray) -> None:
    """Check that some independent component is clearly not normally distributed."""
    excess = (components**4).mean(0) - 3
    least = max(MIN_KURTOSIS, 4 * math.sqrt(24 / len(components)))
    if abs(excess).max() < least:
        raise RotationError(
            "codes are normally distributed in every direction, so independent components are "
            "arbitrary; use the codes as they are, or train an autoencoder (ae)",
            subject="codes",
            value=float(abs(excess).max()),
        )


def _independent_components(
    white: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, bool]:
    """Return the rotation of whitened codes to independent components, and its convergence."""
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    best, best_contrast, best_converged = np.eye(white.shape[1]), -1.0, False
    for _ in range(RESTARTS):
        start = _orthogonal(white.shape[1], generator)
        ica = FastICA(whiten=False, w_init=start, tol=TOLERANCE, max_iter=MAX_ITERATIONS)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ica.fit(white)
        converged = not any(issubclass(each.category, ConvergenceWarning) for each in caught)
        turn = ica.components_.T
        logcosh = np.logaddexp(white @ turn, -white @ turn) - math.log(2)
        contrast = float(np.square(logcosh.mean(0) - GAUSSIAN_LOGCOSH).sum())
        if (converged, contrast) > (best_converged, best_contrast):
            best, best_contrast, best_converged = turn, contrast, converged
    return best, best_converged
