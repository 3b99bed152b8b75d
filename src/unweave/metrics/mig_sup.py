"""MIG-sup: by how much a code knows more of one factor than of any other."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.active_units import BURDA_VARIANCE
from unweave.metrics.base import Metric, table
from unweave.metrics.discretise import bins, entropy, mutual_information

__all__ = ["MIG_SUP", "mig_sup"]


def mig_sup(codes: Any, factors: Any, seed: int = 0, *, count: int = 20) -> dict[str, float]:
    """Mutual information gap between the two factors that a code knows most of.

        MIG-sup = 1/d Σ_j [I(z_j; v_k1) / H(v_k1) - I(z_j; v_k2) / H(v_k2)]

    with k1, k2 the factors of largest and second largest normalised information: the supplement
    of MIG, which asks the same of a factor's codes.

    Args:
        codes: `[n, d]`, mean or sampled; more than 10,000 rows are drawn from.
        factors: `[n, K]`.
        seed: Draws the rows.
        count: Bins per code.

    Returns:
        `mig_sup`, over all codes as in the paper; `mig_sup_active`, over codes with variance above
        0.01 as in its published code (0 where there are none): passive latents know nothing, and
        each of them lowers the first.

    Notes:
        The mutual information is that of the other scores here, from histogram bins; the published
        code estimates it from samples of the posterior. A single factor is compared with no
        information.

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
    rows = table(codes, factors).draw(10_000, numpy_rng(seed))
    information = mutual_information(bins(rows.codes, count), rows.factors)
    normalised = information / entropy(rows.factors)
    padded = np.concatenate([np.zeros((len(normalised), 1)), normalised], 1)
    second, first = np.sort(padded, 1)[:, -2:].T
    active = rows.codes.var(0, dtype=np.float64) > BURDA_VARIANCE
    return {
        "mig_sup": float((first - second).mean()),
        "mig_sup_active": float((first - second)[active].mean()) if active.any() else 0.0,
    }


MIG_SUP = Metric(
    name="mig_sup",
    label="MIG-sup",
    explanation="For each latent: by how much does the factor it knows most about beat the "
    "second?",
    function=mig_sup,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="factors",
    cost="seconds",
    reference=(
        "Li et al., Progressive Learning and Disentanglement of Hierarchical Representations, "
        "arXiv:2002.10549"
    ),
    failure="Codes that all copy one factor score 1, though the other factors are lost.",
)
