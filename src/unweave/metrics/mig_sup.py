"""MIG-sup: mutual information gap between the two factors that a code encodes best."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.active_units import BURDA_VARIANCE
from unweave.metrics.base import Metric, table
from unweave.metrics.mig import information_of
from unweave.metrics.tools.discretise import entropy, gap

__all__ = ["MIG_SUP", "mig_sup"]


def mig_sup(codes: Any, factors: Any, seed: int = 0, *, count: int = 20) -> dict[str, float]:
    """Mutual information gap between the two factors that a code encodes best.

        MIG-sup = 1/d Σ_j [I(z_j; v_k1) / H(v_k1) - I(z_j; v_k2) / H(v_k2)]

    where k1, k2 are the factors with the largest and second largest normalised information. It
    supplements MIG, which compares the codes of a factor.

    Args:
        codes: Codes `[n, d]`, mean or sampled; if there are more than 10,000 rows, that many are
            sampled.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling rows.
        count: Number of bins per code.

    Returns:
        `mig_sup`, over all codes as in the paper; `mig_sup_active`, over codes with variance above
        0.01 as in its published code (0 if there are none). Passive latents have no information
        and lower only the first score.

    Notes:
        Mutual information is computed from histogram bins, as for MIG; the published code
        estimates it from samples of the posterior. A single factor is compared with a factor
        without information.

    References:
        Li et al., Progressive Learning and Disentanglement of Hierarchical Representations,
        arXiv:2002.10549.

    Example:
        >>> factors = np.indices((4, 5)).reshape(2, -1).T
        >>> mig_sup(factors, factors)
        {'mig_sup': 1.0, 'mig_sup_active': 1.0}
        >>> round(mig_sup(factors @ [[1, 1], [0, 1]], factors)["mig_sup"], 3)
        0.551
    """
    rows = table(codes, factors).draw(numpy_rng(seed))
    gaps = gap((information_of(rows, count) / entropy(rows.factors)).T)
    active = rows.codes.var(0, dtype=np.float64) > BURDA_VARIANCE
    return {
        "mig_sup": float(gaps.mean()),
        "mig_sup_active": float(gaps[active].mean()) if active.any() else 0.0,
    }


MIG_SUP = Metric(
    function=mig_sup,
    label="MIG-sup",
    explanation="For each latent: how much more informative is it about its best factor than "
    "about the second best?",
    failure="Codes that all copy one factor score 1, although the other factors are lost.",
)
