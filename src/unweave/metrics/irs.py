"""IRS, the interventional robustness score: a code should not change when other factors do."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, table
from unweave.metrics.tools.discretise import bins

__all__ = ["IRS", "irs"]


def irs(codes: Any, factors: Any, seed: int = 0, *, quantile: float = 0.99) -> dict[str, float]:
    """How little each code changes while the factor that it follows is fixed.

        IRS = Σ_j w_j max_k [1 - mean_v Q(|z_j - E[z_j | v_k = v]|; v_k = v) / w_j] / Σ_j w_j

    with w_j = max |z_j - E z_j| and Q a high quantile over the rows with value v.

    Args:
        codes: Codes `[n, d]`, mean or sampled.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling 10,000 rows if there are more.
        quantile: Quantile Q: 0.99 (default) as in the protocol, or 1 for the maximum of the paper.

    Returns:
        `irs`; `num_active`, the number of codes that are not constant.

    Notes:
        As in disentanglement_lib, factors are split into 20 bins, constant codes are dropped, and
        the score is 0 if all codes are constant. Its `num_active_dims` is the sum of the codes;
        here it is their number. With very few rows per value, the score can be negative.

    References:
        Suter et al., Robustly Disentangled Causal Mechanisms, arXiv:1811.00007.

    Example:
        >>> factors = np.indices((4, 5)).reshape(2, -1).T
        >>> irs(factors, factors)
        {'irs': 1.0, 'num_active': 2.0}
        >>> round(irs(factors @ [[1, 1], [1, -1]], factors)["irs"], 3)
        0.571
    """
    rows = table(codes, factors).draw(numpy_rng(seed))
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
    """Compute 1 - (deviation of a code at a fixed factor) / (largest deviation w), and w.

    For codes `[n, d]`, none constant, and classes `[n, K]`, the results are `[d, K]` and `[d]`.
    """
    codes = codes.astype(np.float64)
    reach = np.abs(codes - codes.mean(0)).max(0)
    strays = [
        np.mean(
            [_deviation(codes[column == value], quantile) for value in np.unique(column)], axis=0
        )
        for column in classes.T
    ]
    return 1 - np.stack(strays, 1) / reach[:, None], reach


def _deviation(codes: np.ndarray, quantile: float) -> np.ndarray:
    return np.percentile(np.abs(codes - codes.mean(0)), 100 * quantile, axis=0)


IRS = Metric(
    function=irs,
    label="IRS",
    explanation="One factor is fixed and the others change. How little does a latent change?",
    failure="Several codes that copy the same factor score as well as one code per factor.",
)
