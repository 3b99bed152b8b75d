"""Gaussian Wasserstein correlation: distance of a normal distribution to its marginals."""

from typing import Any

import numpy as np

from unweave.metrics.base import Metric, draw_codes
from unweave.metrics.gaussian_total_correlation import covariance_of

__all__ = ["GAUSSIAN_WASSERSTEIN_CORRELATION", "gaussian_wasserstein_correlation"]


def gaussian_wasserstein_correlation(
    codes: Any, factors: Any = None, seed: int = 0
) -> dict[str, float]:
    """Squared 2-Wasserstein distance between N(0, Σ) and N(0, D), with Σ the covariance of codes.

        W = 2 tr Σ - 2 tr (D Σ)^½,  D = diag(Σ)

    Unlike the total correlation, it depends on scale, so that passive latents hardly count.

    Args:
        codes: Codes `[n, d]`, mean or sampled.
        factors: Not used.
        seed: Random seed for sampling 10,000 rows if there are more.

    Returns:
        `gaussian_wasserstein_correlation`; `gaussian_wasserstein_correlation_norm`, divided by
        tr Σ and therefore invariant to a common rescaling of all codes.

    Notes:
        The trace is computed from the eigenvalues of the symmetric D^½ Σ D^½, which are those of
        D Σ. This gives the same number as the matrix root of the reference, and also works for
        constant and duplicated codes. If all codes are constant, the score is 0.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(10_000, 2))
        >>> scores = gaussian_wasserstein_correlation(z @ [[1, 0.5], [0, 1]])
        >>> {name: round(score, 3) for name, score in scores.items()}
        {'gaussian_wasserstein_correlation': 0.112, 'gaussian_wasserstein_correlation_norm': 0.05}
    """
    covariance = covariance_of(draw_codes(codes, seed))
    variances = np.diag(covariance)
    scale = np.sqrt(variances)
    squares = np.linalg.eigvalsh(covariance * np.outer(scale, scale))
    distance = 2 * variances.sum() - 2 * np.sqrt(np.maximum(squares, 0)).sum()
    distance = max(0.0, float(distance))
    return {
        "gaussian_wasserstein_correlation": distance,
        "gaussian_wasserstein_correlation_norm": distance / float(variances.sum() or 1),
    }


GAUSSIAN_WASSERSTEIN_CORRELATION = Metric(
    function=gaussian_wasserstein_correlation,
    label="Wasserstein correlation",
    explanation="Distance of the codes from uncorrelated codes. It depends on their scale.",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs="codes",
    failure="Shrinking all codes lowers it, however correlated they are; use the normalised one.",
)
