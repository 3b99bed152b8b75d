"""Gaussian total correlation: how far codes are from uncorrelated, by their covariance alone."""

from typing import Any

import numpy as np

from unweave.metrics.active_units import BURDA_VARIANCE
from unweave.metrics.base import Metric, MetricError, draw_codes

__all__ = ["GAUSSIAN_TOTAL_CORRELATION", "gaussian_total_correlation"]

PROTOCOL_ROWS = 10_000


def gaussian_total_correlation(
    codes: Any,
    factors: Any = None,  # noqa: ARG001 - every metric takes them
    seed: int = 0,
    *,
    means: Any = None,
) -> dict[str, float]:
    """The total correlation of a normal law with the covariance Σ of the codes, in nats.

        TC = ½ (Σ_j log Σ_jj - log det Σ) = KL(N(0, Σ) ‖ Π_j N(0, Σ_jj))

    Args:
        codes: `[n, d]`, mean or sampled; the two can differ widely, see Notes.
        factors: Not used.
        seed: Draws 10,000 rows where there are more.
        means: Where codes are sampled, their means `[n, d]`, by which latents count as active.

    Returns:
        `gaussian_total_correlation`, and `active_total_correlation`: the same over the codes whose
        means have variance above 0.01, Burda's rule for active units. Sampled, every latent
        varies, so that without `means` none of them counts as passive.

    Notes:
        The score does not see scale: a passive latent whose tiny mean copies an active one counts
        in full, so that mean codes can have a large total correlation where sampled codes have
        none. Read it beside the one over active codes.
        Constant codes are left out, where the reference gives NaN; codes of which one is a linear
        function of others score infinity.

    References:
        Watanabe, Information Theoretical Analysis of Multivariate Correlation, 1960; as a score:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(10_000, 2))
        >>> copy = np.column_stack([z, 1e-3 * (z[:, 0] + 0.1 * rng.normal(size=10_000))])
        >>> scores = gaussian_total_correlation(copy)
        >>> {name: round(score, 2) for name, score in scores.items()}
        {'gaussian_total_correlation': 2.3, 'active_total_correlation': 0.0}
    """
    covariance = covariance_of(draw_codes(codes, PROTOCOL_ROWS, seed))
    seen = covariance if means is None else covariance_of(draw_codes(means, PROTOCOL_ROWS, seed))
    active = np.diag(seen) > BURDA_VARIANCE
    return {
        "gaussian_total_correlation": total_correlation(covariance),
        "active_total_correlation": total_correlation(covariance[np.ix_(active, active)]),
    }


def covariance_of(codes: np.ndarray) -> np.ndarray:
    """The covariance matrix `[d, d]` of codes `[n, d]`; constant codes have exactly zeros."""
    if len(codes) < 2:
        raise MetricError("a covariance needs at least two rows of codes, but got one")
    constant = np.ptp(codes, axis=0) == 0
    return np.atleast_2d(np.cov(np.where(constant, 0, codes), rowvar=False))


def total_correlation(covariance: np.ndarray) -> float:
    """½ (Σ_j log Σ_jj - log det Σ) of a covariance matrix `[d, d]`, without constant variables."""
    varying = np.diag(covariance) > 0
    covariance = covariance[np.ix_(varying, varying)]
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    # Below rounding, the smallest eigenvalue only says that the determinant is 0.
    if len(scale) and np.linalg.eigvalsh(correlation)[0] < len(scale) * np.finfo(float).eps:
        return float("inf")
    return max(0.0, -0.5 * float(np.linalg.slogdet(correlation)[1]))


GAUSSIAN_TOTAL_CORRELATION = Metric(
    name="gaussian_total_correlation",
    label="total correlation",
    explanation="How far the codes are from uncorrelated, were they jointly normal, in nats.",
    function=gaussian_total_correlation,
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs="codes",
    cost="seconds",
    reference="Locatello et al., Challenging Common Assumptions, arXiv:1811.12359",
    failure="A passive latent whose tiny mean copies an active one counts in full.",
)
