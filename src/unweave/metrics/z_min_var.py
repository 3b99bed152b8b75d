"""Z-min variance: the FactorVAE score under another name."""

from typing import Any

from unweave.metrics.base import Metric
from unweave.metrics.factor_vae import FACTOR_VAE, factor_vae

__all__ = ["Z_MIN_VAR", "z_min_var"]


def z_min_var(codes: Any, factors: Any, seed: int = 0, **options: Any) -> dict[str, float]:
    """FactorVAE score, under the name used in reviews of metrics.

    Args:
        codes: Codes `[n, d]`.
        factors: Factors `[n, K]`.
        seed: As for `factor_vae`.
        **options: As for `factor_vae`.

    Returns:
        The scores of `factor_vae`, with the headline score as `z_min_var`.

    Notes:
        The code of the review rescales the accuracy so that guessing scores 0; this does not.

    References:
        Kim and Mnih, Disentangling by Factorising, arXiv:1802.05983; the name: Carbonneau et al.,
        Measuring Disentanglement: A Review of Metrics, arXiv:2012.09276.

    Example:
        >>> import numpy as np
        >>> factors = np.indices((4, 5)).reshape(2, -1).T
        >>> z_min_var(factors, factors)
        {'z_min_var': 1.0, 'train_accuracy': 1.0, 'active': 2.0}
    """
    scores = factor_vae(codes, factors, seed, **options)
    return {"z_min_var": scores.pop("factor_vae"), **scores}


Z_MIN_VAR = Metric(
    function=z_min_var,
    label="Z-min variance",
    explanation="The FactorVAE score, under the name used in reviews of metrics.",
    needs="pairs",
    reference=FACTOR_VAE.reference,
    failure=FACTOR_VAE.failure,
)
