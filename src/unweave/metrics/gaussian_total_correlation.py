"""Gaussian total correlation: how strongly codes are correlated, from their covariance alone."""

from typing import Any

import numpy as np

from unweave.metrics.active_units import BURDA_VARIANCE
from unweave.metrics.base import Metric, MetricError, draw_codes

__all__ = ["GAUSSIAN_TOTAL_CORRELATION", "gaussian_total_correlation"]


def gaussian_total_correlation(
    codes: Any, factors: Any = None, seed: int = 0, *, means: Any = None
) -> dict[str, float]:
    """Total correlation of a normal distribution with the covariance Σ of the codes, in nats.

        TC = ½ (Σ_j log Σ_jj - log det Σ) = KL(N(0, Σ) ‖ Π_j N(0, Σ_jj))

    Args:
        codes: Codes `[n, d]`, mean or sampled; the two can give very different scores, see Notes.
        factors: Not used.
        seed: Random seed for sampling 10,000 rows if there are more.
        means: Posterior means `[n, d]` for sampled codes, used to decide which latents are active.

    Returns:
        `gaussian_total_correlation`; `active_total_correlation`, the same for codes whose means
        have a variance above 0.01, Burda's rule for active units. Every latent varies if codes are
        sampled, so without `means` all sampled latents count as active.

    Notes:
        The score is invariant to scale. A passive latent whose tiny mean copies an active one
        counts in full, so mean codes can have a large total correlation where sampled codes have
        none. Compare it with the score of active codes.
        Constant codes are ignored; the reference returns NaN for them. The score is infinite if
        a code is a linear function of others.

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
    covariance = covariance_of(draw_codes(codes, seed))
    covariance_of_means = covariance if means is None else covariance_of(draw_codes(means, seed))
    active = np.diag(covariance_of_means) > BURDA_VARIANCE
    return {
        "gaussian_total_correlation": total_correlation(covariance),
        "active_total_correlation": total_correlation(covariance[np.ix_(active, active)]),
    }


def covariance_of(codes: np.ndarray) -> np.ndarray:
    """Return the covariance matrix `[d, d]` of codes `[n, d]`; exactly 0 for constant codes."""
    if len(codes) < 2:
        raise MetricError.expected("codes", "have at least two rows", len(codes))
    constant = np.ptp(codes, axis=0) == 0
    return np.atleast_2d(np.cov(np.where(constant, 0, codes), rowvar=False))


def total_correlation(covariance: np.ndarray) -> float:
    """Compute ½ (Σ_j log Σ_jj - log det Σ) for a covariance `[d, d]`, without constant codes."""
    varying = np.diag(covariance) > 0
    covariance = covariance[np.ix_(varying, varying)]
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    # An eigenvalue below rounding error means that the determinant is 0.
    if len(scale) and np.linalg.eigvalsh(correlation)[0] < len(scale) * np.finfo(float).eps:
        return float("inf")
    return max(0.0, -0.5 * float(np.linalg.slogdet(correlation)[1]))


GAUSSIAN_TOTAL_CORRELATION = Metric(
    function=gaussian_total_correlation,
    label="total correlation",
    explanation="How strongly are the codes correlated, assuming that they are jointly normal? "
    "In nats.",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs="codes",
    reference="Locatello et al., Challenging Common Assumptions, arXiv:1811.12359",
    failure="A passive latent whose tiny mean copies an active one counts in full.",
)
