"""The constructive proof that data alone do not determine a disentangled code.

Let z have d > 1 independent coordinates with densities p_i and distribution functions g_i. Then

    f(u) = g⁻¹(Φ(A Φ⁻¹(g(u)))),    A = I - 2 v vᵀ,    v = (√α, √((1-α)/(d-1)), …)

has the same joint and marginal distributions as z, while every coordinate of f(z) depends on every
coordinate of z. Data x generated from z could equally well have been generated from f(z), so the
data do not reveal which of the two codes is the true one.

Shapes: n rows of d coordinates, `[n, d]`.

References:
    Locatello et al., Challenging Common Assumptions in the Unsupervised Learning of Disentangled
    Representations, Theorem 1 and Appendix A, arXiv:1811.12359.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import pandas as pd
from scipy import special, stats

from unweave.evaluation.choice import choose
from unweave.evaluation.evaluate import column
from unweave.io.arguments import check_count, numpy_rng
from unweave.papers.theory import TheoryError

__all__ = [
    "EDGE",
    "PRIORS",
    "Entanglement",
    "Marginal",
    "best_alpha",
    "check",
    "collapse",
    "cosine",
    "draw",
    "entangle",
    "entangle_with",
    "householder",
    "perfect_code",
]

EDGE = 1e-12
"""Smallest distance of probabilities from 0 and 1."""
LIMIT = -float(special.ndtri(EDGE))
"""Corresponding limit of a standard normal coordinate, 7.03."""
CLASSES = 5
"""Default number of equally probable classes per factor, for metrics."""
Marginal: TypeAlias = Any
"""A frozen distribution of `scipy.stats`, or another object with the methods `NEEDED`."""
NEEDED = ("cdf", "sf", "ppf", "isf", "logpdf")


PRIORS: Mapping[str, Marginal] = {
    "normal": stats.norm(),
    "uniform": stats.uniform(),
    "laplace": stats.laplace(),
    "exponential": stats.expon(),
    "beta": stats.beta(2, 5),
}
"""Available priors by name; any distribution with the methods of `Marginal` also works."""


@dataclass(frozen=True, eq=False)
class Entanglement:
    """The map f, created by `entangle` or, for another A, by `entangle_with`.

    Args:
        priors: Distribution of each coordinate.
        matrix: A `[d, d]`, symmetric and orthogonal, so that f is its own inverse.

    Notes:
        Tail probabilities below 1e-12 are clipped to 1e-12. Extreme values and values outside the
        support therefore map to the same value, and f is not its own inverse there. For samples
        from the priors this happens with probability below 4e-12 · d. `clipped` returns the
        affected rows. Jacobians are those of f without clipping.
    """

    priors: Sequence[Marginal]
    matrix: np.ndarray

    def __call__(self, codes: Any) -> np.ndarray:
        """Compute f of every row, `[n, d]`; f(f(u)) = u."""
        return self._values(self._scores(self._rows(codes)) @ self.matrix)

    def clipped(self, codes: Any) -> np.ndarray:
        """Return whether a coordinate of u or f(u) is clipped in each row, `[n]`."""
        scores = self._scores(self._rows(codes))
        largest = np.maximum(np.abs(scores).max(1), np.abs(scores @ self.matrix).max(1))
        return largest >= LIMIT

    def jacobian(self, codes: Any) -> np.ndarray:
        """Compute ∂f_i/∂u_j of every row, `[n, d, d]`; none is 0 where the densities are positive.

            J_ij = φ(y'_i) / p_i(f_i) · A_ij · p_j(u_j) / φ(y_j),    y = Φ⁻¹(g(u)), y' = A y

        Notes:
            The proof in the paper prints A_ij = -v_i v_j for i ≠ j; it is -2 v_i v_j.
        """
        before, after = self._slopes(codes)
        return np.exp(before[:, None, :] - after[:, :, None]) * self.matrix

    def log_det(self, codes: Any) -> np.ndarray:
        """Compute log |det J| = Σ_i log p_i(u_i) - log p_i(f_i), `[n]`; f preserves density."""
        before, after = self._slopes(codes)
        return (before - after).sum(1)

    def log_density(self, codes: Any) -> np.ndarray:
        """Compute Σ_i log p_i(u_i) of every row, `[n]`."""
        return self._each("logpdf", self._rows(codes)).sum(1)

    def _slopes(self, codes: Any) -> tuple[np.ndarray, np.ndarray]:
        """Compute log dy/du = log p(u) - log φ(y), at u and at f(u), `[n, d]` each."""
        rows = self._rows(codes)
        scores = self._scores(rows)
        mixed = scores @ self.matrix
        before = self._each("logpdf", rows) - _log_phi(scores)
        return before, self._each("logpdf", self._values(mixed)) - _log_phi(mixed)

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        """Compute the scores Φ⁻¹(g(u)) from the smaller of the two tails, for accuracy."""
        below, above = self._each("cdf", rows), self._each("sf", rows)
        tail = special.ndtri(np.clip(np.minimum(below, above), EDGE, 0.5))
        return np.where(below < above, tail, -tail)

    def _values(self, scores: np.ndarray) -> np.ndarray:
        """Compute u = g⁻¹(Φ(y)), also from the smaller tail."""
        tails, low = np.maximum(special.ndtr(-np.abs(scores)), EDGE), scores < 0
        values = np.empty_like(scores)
        for k, prior in enumerate(self.priors):
            below = low[:, k]
            values[below, k] = prior.ppf(tails[below, k])
            values[~below, k] = prior.isf(tails[~below, k])
        return values

    def _each(self, method: str, columns: np.ndarray) -> np.ndarray:
        pairs = zip(self.priors, columns.T, strict=True)
        return np.stack([getattr(prior, method)(column) for prior, column in pairs], 1)

    def _rows(self, codes: Any) -> np.ndarray:
        rows = np.asarray(codes, np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.priors):
            raise TheoryError(
                f"codes must have shape [rows, {len(self.priors)}], with one column per prior, "
                f"got {list(rows.shape)}",
                subject="codes",
                value=rows.shape,
            )
        return rows


def entangle(priors: Sequence[Marginal], alpha: float | None = None) -> Entanglement:
    """Return the map f of Theorem 1, which mixes coordinates but preserves their distribution.

    Args:
        priors: Distributions of the d coordinates: frozen `scipy.stats` distributions, or others
            with the methods of `Marginal`.
        alpha: α of the proof, between 0 and ½ (default: `best_alpha`).

    Example:
        >>> f = entangle([stats.uniform(), stats.expon()], alpha=0.15)
        >>> f([[0.2, 1.0]]).round(3)
        array([[0.203, 1.028]])
        >>> f(f([[0.2, 1.0]])).round(12)
        array([[0.2, 1. ]])
        >>> f.jacobian([[0.2, 1.0]]).round(3)
        array([[[ 0.707, -0.197],
                [-2.662, -0.713]]])
    """
    alpha = best_alpha(len(priors)) if alpha is None else alpha
    return entangle_with(priors, householder(len(priors), alpha))


def entangle_with(priors: Sequence[Marginal], matrix: np.ndarray) -> Entanglement:
    """Return the map f for another matrix A, symmetric and orthogonal without zeros: `cosine`."""
    for prior in priors:
        if not all(hasattr(prior, name) for name in NEEDED):
            raise TheoryError(
                f"priors must have the methods {', '.join(NEEDED)}, as scipy.stats.norm() does, "
                f"got {type(prior).__name__}",
                subject="priors",
                value=prior,
            )
    matrix = np.asarray(matrix, np.float64)
    if matrix.shape != (len(priors), len(priors)):
        raise TheoryError(
            f"matrix must have shape [{len(priors)}, {len(priors)}] for {len(priors)} priors, got "
            f"{list(matrix.shape)}",
            subject="matrix",
            value=matrix.shape,
        )
    whole = np.eye(len(matrix))
    if not (np.allclose(matrix @ matrix, whole) and np.allclose(matrix, matrix.T)):
        raise TheoryError(
            "matrix must be symmetric and orthogonal, so that it is its own inverse",
            subject="matrix",
            value=float(np.abs(matrix @ matrix - whole).max()),
        )
    if np.abs(matrix).min() < EDGE:
        raise TheoryError(
            "matrix must not contain zeros, so that all coordinates are mixed",
            subject="matrix",
            value=0.0,
        )
    return Entanglement(tuple(priors), matrix)


def householder(dimensions: int, alpha: float) -> np.ndarray:
    """Return the reflection of the proof, A = I - 2 v vᵀ `[d, d]`.

    Args:
        dimensions: Number of coordinates d, at least 2.
        alpha: v₁², strictly between 0 and ½, where A has zeros and does not mix all coordinates.

    Example:
        >>> householder(2, 0.15).round(3)
        array([[ 0.7  , -0.714],
               [-0.714, -0.7  ]])
    """
    _check_dimensions(dimensions)
    if not 0 < alpha < 0.5:
        why = "; at ½ the diagonal of A is 0" if alpha == 0.5 else ""
        raise TheoryError(
            f"α must be above 0 and below ½, got {alpha:g}{why}", subject="alpha", value=alpha
        )
    v = np.full(dimensions, np.sqrt((1 - alpha) / (dimensions - 1)))
    v[0] = np.sqrt(alpha)
    return cast(np.ndarray, np.eye(dimensions) - 2 * np.outer(v, v))


def cosine(dimensions: int) -> np.ndarray:
    """Return the DCT-IV `[d, d]`, another A that is its own inverse and has no zeros for any d.

        A_jk = √(2/d) cos(π (2j + 1) (2k + 1) / 4d),    j, k = 0 … d-1

    Notes:
        The cosine is never 0 because (2j + 1) (2k + 1) is odd. With many coordinates it mixes more
        than the reflection, whose diagonal approaches 1 as d grows.
    """
    _check_dimensions(dimensions)
    odd = 2 * np.arange(dimensions) + 1
    return np.sqrt(2 / dimensions) * np.cos(np.pi * np.outer(odd, odd) / (4 * dimensions))


def best_alpha(dimensions: int) -> float:
    """Return the default α: 1/d, where all v_i are equal, or 0.15 for two coordinates."""
    _check_dimensions(dimensions)
    return 0.15 if dimensions == 2 else 1 / dimensions


def draw(priors: Sequence[Marginal], count: int, seed: int = 0) -> np.ndarray:
    """Draw independent samples from the priors, `[count, d]`."""
    shares = numpy_rng(seed).uniform(EDGE, 1, (count, len(priors)))
    return np.stack([p.isf(column) for p, column in zip(priors, shares.T, strict=True)], 1)


def check(entanglement: Entanglement, count: int = 100_000, seed: int = 0) -> pd.DataFrame:
    """Check the statements of the theorem on samples from the priors.

    Returns:
        A table with a row per coordinate of f(z): `ks`, the p-value of the Kolmogorov-Smirnov test
        against its prior; `largest_rank_correlation` with another coordinate of f(z), in absolute
        value; `smallest_slope`, the smallest |∂f_i/∂u_j| over j and samples; `undone`, the largest
        error of f(f(u)) in probability; `volume`, the largest |det J| Πp(f) / Πp(u) - 1, with the
        determinant computed from the matrix J.
    """
    codes = draw(entanglement.priors, count, seed)
    mixed = entanglement(codes)
    ranks = np.abs(np.corrcoef(stats.rankdata(mixed, axis=0), rowvar=False))
    jacobians = entanglement.jacobian(codes)
    back = entanglement._each("cdf", entanglement(mixed)) - entanglement._each("cdf", codes)
    expected = entanglement.log_density(codes) - entanglement.log_density(mixed)
    volume = np.abs(np.expm1(np.linalg.slogdet(jacobians)[1] - expected)).max()
    return pd.DataFrame(
        {
            "coordinate": np.arange(mixed.shape[1]),
            "ks": [
                stats.kstest(column, prior.cdf).pvalue
                for prior, column in zip(entanglement.priors, mixed.T, strict=True)
            ],
            "largest_rank_correlation": (ranks - np.eye(len(ranks))).max(1),
            "smallest_slope": np.abs(jacobians).min((0, 2)),
            "undone": np.abs(back).max(0),
            "volume": volume,
        }
    )


def perfect_code(
    priors: Sequence[Marginal], count: int = 20_000, seed: int = 0, classes: int = CLASSES
) -> tuple[np.ndarray, np.ndarray]:
    """Return a perfectly disentangled code and its factors, `[n, d]` each.

    Codes are samples from the priors; each factor is its code cut into equally probable classes.
    """
    codes = draw(priors, count, seed)
    shares = [prior.cdf(column) for prior, column in zip(priors, codes.T, strict=True)]
    return codes, np.minimum(np.stack(shares, 1) * classes, classes - 1).astype(np.int64)


def collapse(
    entanglement: Entanglement,
    metrics: str | Iterable[str] = "classic",
    count: int = 20_000,
    seed: int = 0,
    classes: int = CLASSES,
) -> pd.DataFrame:
    """Score a perfectly disentangled code z and its entangled version f(z).

    The metrics must need neither images nor posteriors.

    Returns:
        A table with a row per score and the columns `metric`, `code` and `entangled`.
    """
    codes, factors = perfect_code(entanglement.priors, count, seed, classes)
    chosen = choose(metrics)
    for metric in chosen:
        if metric.of_images or metric.of_posteriors:
            raise TheoryError(
                f"{metric.name} needs a model; use metrics of codes and factors, such as mig",
                subject="metrics",
                value=metric.name,
            )
    both = {
        name: {
            column(metric, part): score
            for metric in chosen
            for part, score in metric(scored, factors, seed).items()
        }
        for name, scored in (("code", codes), ("entangled", entanglement(codes)))
    }
    return pd.DataFrame(both).rename_axis("metric").reset_index()


def _check_dimensions(dimensions: int) -> None:
    if dimensions < 2:
        raise TheoryError(
            f"dimensions must be at least 2, got {dimensions}; a single coordinate cannot be "
            "entangled",
            subject="dimensions",
            value=dimensions,
        )
    check_count("dimensions", dimensions, 2, 1_000)


def _log_phi(y: np.ndarray) -> np.ndarray:
    return -0.5 * (y**2 + np.log(2 * np.pi))
