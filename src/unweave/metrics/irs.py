"""IRS, the interventional robustness score: a code should stay put when other factors change."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, table
from unweave.metrics.discretise import bins

__all__ = ["IRS", "irs"]

PROTOCOL_ROWS = 10_000


def irs(codes: Any, factors: Any, seed: int = 0, *, quantile: float = 0.99) -> dict[str, float]:
    """How little each code moves while the factor that it follows is held fixed.

        IRS = Σ_j w_j max_k [1 - mean_v Q(|z_j - E[z_j | v_k = v]|; v_k = v) / w_j] / Σ_j w_j

    with w_j = max |z_j - E z_j| and Q a high quantile over the rows that share the value v.

    Args:
        codes: `[n, d]`, mean or sampled.
        factors: `[n, K]`.
        seed: Draws 10,000 rows where there are more.
        quantile: Q; 1 is the maximum of the paper, 0.99 the protocol's.

    Returns:
        `irs`, and `num_active`: how many codes are not constant.

    Notes:
        As in disentanglement_lib, factors are cut into 20 bins, constant codes are dropped, and a
        table of constant codes scores 0. Its `num_active_dims` is the sum of the codes; here it is
        their number. With a handful of rows per value the score can fall below 0.

    References:
        Suter et al., Robustly Disentangled Causal Mechanisms, arXiv:1811.00007.

    Example:
        >>> factors = np.indices((4, 5)).reshape(2, -1).T
        >>> irs(factors, factors)
        {'irs': 1.0, 'num_active': 2.0}
        >>> round(irs(factors @ [[1, 1], [1, -1]], factors)["irs"], 3)
        0.571
    """
    rows = table(codes, factors).draw(PROTOCOL_ROWS, numpy_rng(seed))
    active = np.ptp(rows.codes, axis=0) > 0
    if not active.any():
        return {"irs": 0.0, "num_active": 0.0}
    matrix, reach = robustness(rows.codes[:, active], bins(rows.factors), quantile)
    return {
        "irs": float(np.average(matrix.max(1), weights=reach)),
        "num_active": float(active.sum()),
    }


def robustness(
    codes: np.ndarray, classes: np.ndarray, quantile: float
) -> tuple[np.ndarray, np.ndarray]:
    """1 - (how far a code strays at a fixed factor) / (how far it reaches), and the reaches.

    Args:
        codes: `[n, d]`, none constant.
        classes: `[n, K]`.
        quantile: Of the distances that counts.

    Returns:
        `[d, K]` and `[d]`.
    """
    codes = codes.astype(np.float64)
    reach = np.abs(codes - codes.mean(0)).max(0)
    strays = [
        np.mean([_stray(codes[column == value], quantile) for value in np.unique(column)], axis=0)
        for column in classes.T
    ]
    return 1 - np.stack(strays, 1) / reach[:, None], reach


def _stray(codes: np.ndarray, quantile: float) -> np.ndarray:
    return np.percentile(np.abs(codes - codes.mean(0)), 100 * quantile, axis=0)


IRS = Metric(
    name="irs",
    label="IRS",
    explanation="Fix a factor and change the others. How far does a latent stay where it was?",
    function=irs,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="factors",
    cost="seconds",
    reference="Suter et al., Robustly Disentangled Causal Mechanisms, arXiv:1811.00007",
    failure="Several codes that each copy the same factor score as well as one code per factor.",
)
