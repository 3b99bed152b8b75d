"""Polarised regime: each latent is either active, with little noise, or passive like the prior."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, check_codes, check_given, check_logvars, choose_rows

__all__ = ["POLARISED_REGIME", "polarised_regime"]

MIN_KL = 1e-12


def polarised_regime(
    codes: Any, factors: Any = None, seed: int = 0, *, logvars: Any = None
) -> dict[str, float]:
    """Share of the noise term in each latent's KL divergence, which is small for active latents.

        log Δ_j = log E[L_KL - L_≈KL] - log E[L_KL] = log E[σ_j²] - log 2 E[L_KL]
        L_KL = ½ (μ_j² + σ_j² - log σ_j² - 1),    L_≈KL = ½ (μ_j² - log σ_j² - 1)

    Far below 0 a latent is active (σ² ≪ 1); far above 0 it is passive (μ² ≪ 1, σ² ≈ 1).

    Args:
        codes: Posterior means μ, `[n, d]`.
        factors: Not used.
        seed: Random seed for sampling 10,000 rows if there are more.
        logvars: Posterior log-variances log σ², `[n, d]`; required.

    Returns:
        `polarised_regime`, the mean of log Δ over latents; `num_active`, the number of latents
        with log Δ < 0; and for each latent j, `log_delta_j` and `mean_variance_j`, the variance of
        its mean. A latent with little noise whose mean is constant is unused, whatever its log Δ.

    Notes:
        Both expectations are over the data, because ratios for single images explode where the KL
        divergence is near 0. L_≈KL is applied to every latent, including passive ones.

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
    check_given("polarised_regime", logvars=logvars)
    means = check_codes(codes)
    logvars = check_logvars(logvars, means)
    chosen = choose_rows(len(means), numpy_rng(seed))
    means, logvars = means[chosen], logvars[chosen]
    log_delta = log_noise_share(means, logvars)
    return {
        "polarised_regime": float(log_delta.mean()),
        "num_active": float((log_delta < 0).sum()),
        **{f"log_delta_{j}": float(value) for j, value in enumerate(log_delta)},
        **{f"mean_variance_{j}": float(v) for j, v in enumerate(means.var(0, dtype=np.float64))},
    }


def log_noise_share(means: np.ndarray, logvars: np.ndarray) -> np.ndarray:
    """Compute log Δ of every latent, `[d]`, from means and log-variances `[n, d]`."""
    means, logvars = means.astype(np.float64), logvars.astype(np.float64)
    noise = np.exp(logvars)
    kl = 0.5 * (means**2 + noise - logvars - 1).mean(0)
    return np.log(noise.mean(0)) - np.log(2 * np.maximum(kl, MIN_KL))


POLARISED_REGIME = Metric(
    function=polarised_regime,
    explanation="Is each latent either used, with little noise, or passive like the prior? Far "
    "below 0 it is used.",
    higher_is_better=None,
    bounds=(-float("inf"), float("inf")),
    needs="posterior",
    failure="A latent with little noise looks active even if its mean never changes.",
)
