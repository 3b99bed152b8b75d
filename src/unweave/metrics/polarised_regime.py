"""Polarised regime: latents are either active, with little noise, or passive, like the prior."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, MetricError, check_codes, check_logvars, choose_rows

__all__ = ["POLARISED_REGIME", "polarised_regime"]

PROTOCOL_ROWS = 10_000
SMALLEST_KL = 1e-12


def polarised_regime(
    codes: Any,
    factors: Any = None,  # noqa: ARG001 - every metric takes them
    seed: int = 0,
    *,
    logvars: Any = None,
) -> dict[str, float]:
    """How much of each latent's KL divergence is the noise that an active latent does not have.

        log Δ_j = log E[L_KL - L_≈KL] - log E[L_KL] = log E[σ_j²] - log 2 E[L_KL]
        L_KL = ½ (μ_j² + σ_j² - log σ_j² - 1),    L_≈KL = ½ (μ_j² - log σ_j² - 1)

    Far below 0 a latent is active (σ² ≪ 1), far above it is passive (μ² ≪ 1, σ² ≈ 1).

    Args:
        codes: Posterior means μ, `[n, d]`.
        factors: Not used.
        seed: Draws 10,000 rows where there are more.
        logvars: Posterior log-variances log σ², `[n, d]`; must be given.

    Returns:
        `polarised_regime`: the mean of log Δ over latents; `num_active`: latents with log Δ < 0;
        and for each latent j `log_delta_j` and, beside it, `mean_variance_j`, the variance of its
        mean: a latent of small noise whose mean does not vary is not in use, whatever its log Δ.

    Notes:
        Both expectations are over the data, since ratios per image explode where an image's KL
        divergence is near 0. L_≈KL is applied to every latent, also to passive ones.

    References:
        Rolínek et al., Variational Autoencoders Pursue PCA Directions (by Accident),
        arXiv:1812.06775.

    Example:
        >>> mu = np.tile([[0.995, 0.1], [-0.995, -0.1]], (50, 1))
        >>> scores = polarised_regime(mu, logvars=np.log(np.tile([0.01, 0.99], (100, 1))))
        >>> {name: round(score, 2) for name, score in scores.items()}
        {'polarised_regime': -0.77, 'num_active': 1.0, 'log_delta_0': -6.13, 'log_delta_1': 4.59,
        'mean_variance_0': 0.99, 'mean_variance_1': 0.01}
    """
    if logvars is None:
        raise MetricError("the polarised regime needs the posterior's log-variances as logvars")
    means = check_codes(codes)
    logvars = check_logvars(logvars, means)
    chosen = choose_rows(len(means), PROTOCOL_ROWS, numpy_rng(seed))
    if chosen is not None:
        means, logvars = means[chosen], logvars[chosen]
    log_delta = log_noise_share(means, logvars)
    return {
        "polarised_regime": float(log_delta.mean()),
        "num_active": float((log_delta < 0).sum()),
        **{f"log_delta_{j}": float(value) for j, value in enumerate(log_delta)},
        **{f"mean_variance_{j}": float(v) for j, v in enumerate(means.var(0, dtype=np.float64))},
    }


def log_noise_share(means: np.ndarray, logvars: np.ndarray) -> np.ndarray:
    """Log Δ of every latent, `[d]`, from means and log-variances `[n, d]`."""
    means, logvars = means.astype(np.float64), logvars.astype(np.float64)
    noise = np.exp(logvars)
    kl = 0.5 * (means**2 + noise - logvars - 1).mean(0)
    return np.log(noise.mean(0)) - np.log(2 * np.maximum(kl, SMALLEST_KL))


POLARISED_REGIME = Metric(
    name="polarised_regime",
    explanation="Whether latents are either used, with little noise, or left to the prior. Far "
    "below 0 they are used.",
    function=polarised_regime,
    higher_is_better=None,
    bounds=(-float("inf"), float("inf")),
    needs="posterior",
    cost="seconds",
    reference=(
        "Rolínek et al., Variational Autoencoders Pursue PCA Directions (by Accident), "
        "arXiv:1812.06775"
    ),
    failure="A latent with little noise looks active even where its mean never changes.",
)
