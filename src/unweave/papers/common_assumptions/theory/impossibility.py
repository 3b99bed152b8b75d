"""Why no one can disentangle from data alone: the constructive proof as a program.

Let z have d > 1 independent coordinates with densities p_i and distribution functions g_i. Then

    f(u) = g⁻¹(Φ(A Φ⁻¹(g(u)))),    A = I - 2 v vᵀ,    v = (√α, √((1-α)/(d-1)), …)

has the same law as z, coordinate by coordinate and jointly, while every coordinate of f(z) depends
on every coordinate of z. Whoever sees only x, made from z, sees as well an x that was made from
f(z): nothing in the data tells which of the two codes is the true one.

Shapes: n rows of d coordinates, `[n, d]`.

References:
    Locatello et al., Challenging Common Assumptions in the Unsupervised Learning of Disentangled
    Representations, Theorem 1 and Appendix A, arXiv:1811.12359.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import pandas as pd
from scipy import special, stats

from unweave.io.arguments import check_count, numpy_rng
from unweave.papers.theory import TheoryError

__all__ = [
    "EDGE",
    "PRIORS",
    "Entanglement",
    "Marginal",
    "best_alpha",
    "check",
    "cosine",
    "draw",
    "entangle",
    "entangle_with",
    "householder",
]

EDGE = 1e-12
"""Probabilities are kept this far from 0 and 1."""
LIMIT = -float(special.ndtri(EDGE))
"""What this is for a standard normal coordinate, 7.03."""
NEEDED = ("cdf", "sf", "ppf", "isf", "logpdf")


class Marginal(Protocol):
    """The law of one coordinate, as frozen distributions of `scipy.stats` have it."""

    def cdf(self, x: Any) -> Any:
        """The probability below x."""

    def sf(self, x: Any) -> Any:
        """The probability above x, exact where it is small."""

    def ppf(self, q: Any) -> Any:
        """What is above so much probability."""

    def isf(self, q: Any) -> Any:
        """What is below so much probability."""

    def logpdf(self, x: Any) -> Any:
        """The log-density."""


PRIORS: Mapping[str, Marginal] = {
    "normal": stats.norm(),
    "uniform": stats.uniform(),
    "laplace": stats.laplace(),
    "exponential": stats.expon(),
    "beta": stats.beta(2, 5),
}
"""Laws by name; any other with the methods of `Marginal` will do."""


@dataclass(frozen=True, eq=False)
class Entanglement:
    """The map f; made by `entangle`, or by `entangle_with` for another A.

    Args:
        priors: The law of each coordinate.
        matrix: A `[d, d]`, symmetric and orthogonal, so that f is its own inverse.

    Notes:
        Where a coordinate has a probability below 1e-12 on one side, it counts as if it had this:
        the outermost values of a law, and all outside its support, become one value, and f does
        not undo itself there. Of a draw from the priors that happens with a probability below
        4e-12 · d. `clipped` says where. Jacobians are those of f without the clip.
    """

    priors: Sequence[Marginal]
    matrix: np.ndarray

    def __call__(self, codes: Any) -> np.ndarray:
        """f of every row, `[n, d]`; f(f(u)) = u."""
        return self._values(self._scores(self._rows(codes)) @ self.matrix)

    def clipped(self, codes: Any) -> np.ndarray:
        """In which rows a coordinate of u or of f(u) lies beyond the clip, `[n]`."""
        scores = self._scores(self._rows(codes))
        largest = np.maximum(np.abs(scores).max(1), np.abs(scores @ self.matrix).max(1))
        return largest >= LIMIT

    def jacobian(self, codes: Any) -> np.ndarray:
        """∂f_i/∂u_j of every row, `[n, d, d]`; none is 0 where densities are not.

            J_ij = φ(y'_i) / p_i(f_i) · A_ij · p_j(u_j) / φ(y_j),    y = Φ⁻¹(g(u)), y' = A y

        Notes:
            The proof in the paper prints A_ij = -v_i v_j for i ≠ j; it is -2 v_i v_j.
        """
        before, after = self._slopes(codes)
        return np.exp(before[:, None, :] - after[:, :, None]) * self.matrix

    def log_det(self, codes: Any) -> np.ndarray:
        """log |det J| = Σ_i log p_i(u_i) - log p_i(f_i), `[n]`: the joint law stays as it is."""
        before, after = self._slopes(codes)
        return (before - after).sum(1)

    def log_density(self, codes: Any) -> np.ndarray:
        """Σ_i log p_i(u_i) of every row, `[n]`."""
        return self._log_densities(self._rows(codes)).sum(1)

    def _slopes(self, codes: Any) -> tuple[np.ndarray, np.ndarray]:
        """log dy/du = log p(u) - log φ(y), at u and at f(u), `[n, d]` each."""
        rows = self._rows(codes)
        scores = self._scores(rows)
        turned = scores @ self.matrix
        before = self._log_densities(rows) - _log_phi(scores)
        return before, self._log_densities(self._values(turned)) - _log_phi(turned)

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        """Scores Φ⁻¹(g(u)), from the smaller of both tails, which has all its digits."""
        below, above = self._each("cdf", rows), self._each("sf", rows)
        tail = special.ndtri(np.clip(np.minimum(below, above), EDGE, 0.5))
        return np.where(below < above, tail, -tail)

    def _values(self, scores: np.ndarray) -> np.ndarray:
        """u = g⁻¹(Φ(y)), from the smaller tail too."""
        tails, low = np.maximum(special.ndtr(-np.abs(scores)), EDGE), scores < 0
        values = np.empty_like(scores)
        for k, prior in enumerate(self.priors):
            below = low[:, k]
            values[below, k] = prior.ppf(tails[below, k])
            values[~below, k] = prior.isf(tails[~below, k])
        return values

    def _log_densities(self, rows: np.ndarray) -> np.ndarray:
        return self._each("logpdf", rows)

    def _each(self, method: str, columns: np.ndarray) -> np.ndarray:
        pairs = zip(self.priors, columns.T, strict=True)
        return np.stack([getattr(prior, method)(column) for prior, column in pairs], 1)

    def _rows(self, codes: Any) -> np.ndarray:
        rows = np.asarray(codes, np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.priors):
            raise TheoryError(
                f"codes must be a table [rows, {len(self.priors)}], as there are so many priors, "
                f"but got {list(rows.shape)}"
            )
        return rows


def entangle(priors: Sequence[Marginal], alpha: float | None = None) -> Entanglement:
    """The map f of Theorem 1, which keeps the law of independent coordinates and mixes them.

    Args:
        priors: The law of each of d coordinates: frozen distributions of `scipy.stats`, or others
            with the methods of `Marginal`.
        alpha: α of the proof, between 0 and ½; by default `best_alpha`.

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
    """The same with another A: symmetric, orthogonal, without zeros, such as `cosine`.

    Args:
        priors: As for `entangle`.
        matrix: A `[d, d]`.
    """
    for prior in priors:
        if not all(hasattr(prior, name) for name in NEEDED):
            raise TheoryError(
                f"a prior must have {', '.join(NEEDED)}, as scipy.stats.norm() has, but "
                f"{type(prior).__name__} does not"
            )
    matrix = np.asarray(matrix, np.float64)
    if matrix.shape != (len(priors), len(priors)):
        raise TheoryError(
            f"{len(priors)} priors need a matrix [{len(priors)}, {len(priors)}], but got "
            f"{list(matrix.shape)}"
        )
    whole = np.eye(len(matrix))
    if not (np.allclose(matrix @ matrix, whole) and np.allclose(matrix, matrix.T)):
        raise TheoryError("the matrix must be symmetric and orthogonal: its own inverse")
    if np.abs(matrix).min() < EDGE:
        raise TheoryError("the matrix must have no zeros, so that all coordinates are mixed")
    return Entanglement(tuple(priors), matrix)


def householder(dimensions: int, alpha: float) -> np.ndarray:
    """The reflection of the proof, A = I - 2 v vᵀ `[d, d]`.

    Args:
        dimensions: d, at least 2.
        alpha: v₁², between 0 and ½: at both ends A has zeros, and some coordinates are not mixed.

    Example:
        >>> householder(2, 0.15).round(3)
        array([[ 0.7  , -0.714],
               [-0.714, -0.7  ]])
    """
    _check_dimensions(dimensions)
    if not 0 < alpha < 0.5:
        why = "; at ½ the diagonal of A is 0" if alpha == 0.5 else ""
        raise TheoryError(f"α must be above 0 and below ½, but got {alpha:g}{why}")
    v = np.full(dimensions, np.sqrt((1 - alpha) / (dimensions - 1)))
    v[0] = np.sqrt(alpha)
    return cast(np.ndarray, np.eye(dimensions) - 2 * np.outer(v, v))


def cosine(dimensions: int) -> np.ndarray:
    """Another A that is its own inverse and has no zeros for any d, the DCT-IV `[d, d]`.

        A_jk = √(2/d) cos(π (2j + 1) (2k + 1) / 4d),    j, k = 0 … d-1

    Notes:
        The cosine would be 0 only if (2j + 1) (2k + 1) were even. With many coordinates it mixes
        more than the reflection, whose diagonal goes to 1 as d grows.
    """
    _check_dimensions(dimensions)
    odd = 2 * np.arange(dimensions) + 1
    return np.sqrt(2 / dimensions) * np.cos(np.pi * np.outer(odd, odd) / (4 * dimensions))


def best_alpha(dimensions: int) -> float:
    """The α of a good demonstration: 1/d, where all v_i are alike; of two coordinates 0.15."""
    _check_dimensions(dimensions)
    return 0.15 if dimensions == 2 else 1 / dimensions


def draw(priors: Sequence[Marginal], count: int, seed: int = 0) -> np.ndarray:
    """Independent draws of the priors, `[count, d]`."""
    shares = numpy_rng(seed).uniform(EDGE, 1, (count, len(priors)))
    return np.stack([p.isf(column) for p, column in zip(priors, shares.T, strict=True)], 1)


def check(entanglement: Entanglement, count: int = 100_000, seed: int = 0) -> pd.DataFrame:
    """What the theorem says, measured on draws of the priors.

    Args:
        entanglement: f.
        count: How many draws.
        seed: Of the draws.

    Returns:
        A row per coordinate of f(z): `ks`, the p-value of the Kolmogorov-Smirnov test against its
        prior; `largest_rank_correlation` with another coordinate of f(z), in absolute value;
        `smallest_slope`, the smallest |∂f_i/∂u_j| over j and draws; `undone`, the largest error of
        f(f(u)) on the scale of probabilities; `volume`, that of |det J| Πp(f) / Πp(u) - 1, with
        the determinant from the matrix J.
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


def _check_dimensions(dimensions: int) -> None:
    if dimensions < 2:
        raise TheoryError(
            f"entangling needs at least two coordinates, but got {dimensions}; one alone is "
            "always disentangled"
        )
    check_count("dimensions", dimensions, 2, 1_000)


def _log_phi(y: np.ndarray) -> np.ndarray:
    return -0.5 * (y**2 + np.log(2 * np.pi))
