"""Gaussian Wasserstein correlation: the way from a normal law to the product of its marginals."""

from typing import Any

import numpy as np

from unweave.metrics.base import Metric, draw_codes
from unweave.metrics.gaussian_total_correlation import covariance_of

__all__ = ["GAUSSIAN_WASSERSTEIN_CORRELATION", "gaussian_wasserstein_correlation"]

PROTOCOL_ROWS = 10_000


def gaussian_wasserstein_correlation(
    codes: Any,
    factors: Any = None,  # noqa: ARG001 - every metric takes them
    seed: int = 0,
) -> dict[str, float]:
    """The squared 2-Wasserstein distance of N(0, Σ), Σ the codes' covariance, to its marginals.

        W = 2 tr Σ - 2 tr (D Σ)^½,  D = diag(Σ)

    Unlike the total correlation it sees scale, so that passive latents hardly count.

    Args:
        codes: `[n, d]`, mean or sampled.
        factors: Not used.
        seed: Draws 10,000 rows where there are more.

    Returns:
        `gaussian_wasserstein_correlation`, and `gaussian_wasserstein_correlation_norm`: divided
        by tr Σ, which does not change when all codes are rescaled together.

    Notes:
        D Σ has the eigenvalues of the symmetric D^½ Σ D^½, of which the root's trace is taken:
        the same number as the reference's matrix root, also where codes are constant or
        duplicated. Codes that are all constant score 0.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(10_000, 2))
        >>> scores = gaussian_wasserstein_correlation(z @ [[1, 0.5], [0, 1]])
        >>> {name: round(score, 3) for name, score in scores.items()}
        {'gaussian_wasserstein_correlation': 0.112, 'gaussian_wasserstein_correlation_norm': 0.05}
    """
    covariance = covariance_of(draw_codes(codes, PROTOCOL_ROWS, seed))
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
    name="gaussian_wasserstein_correlation",
    label="Wasserstein correlation",
    explanation="How far the codes are from uncorrelated, as a distance that sees their scale.",
    function=gaussian_wasserstein_correlation,
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs="codes",
    cost="seconds",
    reference="Locatello et al., Challenging Common Assumptions, arXiv:1811.12359",
    failure="Shrinking all codes lowers it, whatever they share; compare the normalised one.",
)
