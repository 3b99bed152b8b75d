"""Active units: the number of latents that a model uses."""

from typing import Any

import numpy as np

from unweave.metrics.base import Metric, check_codes
from unweave.metrics.factor_vae import THRESHOLD

__all__ = ["ACTIVE_UNITS", "active_units"]

BURDA_VARIANCE = 0.01


def active_units(
    codes: Any, factors: Any = None, seed: int = 0, *, variance: float = BURDA_VARIANCE
) -> dict[str, float]:
    """Count the codes that vary over the data.

        AU = #{j : Var_x(E[z_j | x]) > 0.01}

    Args:
        codes: Posterior means `[n, d]`. With sampled codes, every latent varies.
        factors: Not used.
        seed: Not used; all rows count.
        variance: Variance above which a code counts as active.

    Returns:
        `active_units`; `active_units_std`, counted by the rule of the FactorVAE score (standard
        deviation of at least 0.05); `active_fraction`, which is `active_units` / d.

    References:
        Burda et al., Importance Weighted Autoencoders, arXiv:1509.00519;
        Kim and Mnih, Disentangling by Factorising, arXiv:1802.05983.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(1000, 4)) * [1, 1, 0.07, 0.001]
        >>> active_units(z)
        {'active_units': 2.0, 'active_units_std': 3.0, 'active_fraction': 0.5}
    """
    codes = check_codes(codes).astype(np.float64)
    active = codes.var(0) > variance
    spread = codes.std(0, ddof=min(1, len(codes) - 1))
    return {
        "active_units": float(active.sum()),
        "active_units_std": float((spread >= THRESHOLD).sum()),
        "active_fraction": float(active.mean()),
    }


ACTIVE_UNITS = Metric(
    function=active_units,
    explanation="Number of latents that vary over the data: variance of the mean above 0.01.",
    higher_is_better=None,
    bounds=(0.0, float("inf")),
    needs="codes",
    failure="The threshold is absolute, so rescaling the codes changes the count.",
)
