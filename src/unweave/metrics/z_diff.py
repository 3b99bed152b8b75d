"""Z-diff: the BetaVAE score under another name."""

from typing import Any

from unweave.metrics.base import Metric
from unweave.metrics.beta_vae import BETA_VAE, beta_vae

__all__ = ["Z_DIFF", "z_diff"]


def z_diff(codes: Any, factors: Any, seed: int = 0, **options: Any) -> dict[str, float]:
    """BetaVAE score, under the name used in reviews of metrics.

    Args:
        codes: Codes `[n, d]`.
        factors: Factors `[n, K]`.
        seed: As for `beta_vae`.
        **options: As for `beta_vae`.

    Returns:
        The scores of `beta_vae`, with the headline score as `z_diff`.

    Notes:
        The code of the review rescales the accuracy so that guessing scores 0; this does not.

    References:
        Higgins et al., β-VAE: Learning Basic Visual Concepts with a Constrained Variational
        Framework, ICLR 2017; the name: Carbonneau et al., Measuring Disentanglement: A Review of
        Metrics, arXiv:2012.09276.

    Example:
        >>> import numpy as np
        >>> factors = np.indices((4, 5)).reshape(2, -1).T
        >>> z_diff(factors, factors)
        {'z_diff': 1.0, 'train_accuracy': 1.0}
    """
    scores = beta_vae(codes, factors, seed, **options)
    return {"z_diff": scores.pop("beta_vae"), **scores}


Z_DIFF = Metric(
    function=z_diff,
    label="Z-diff",
    explanation="The BetaVAE score, under the name used in reviews of metrics.",
    needs="pairs",
    reference=BETA_VAE.reference,
    failure=BETA_VAE.failure,
)
