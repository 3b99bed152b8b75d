"""MCC: mean correlation between factors and codes, matched one to one."""

from typing import Any

import numpy as np

from unweave.errors import UnknownNameError
from unweave.io.arguments import numpy_rng
from unweave.metrics import base
from unweave.metrics.base import Metric

__all__ = ["MCC", "mcc"]

CORRELATIONS = ("spearman", "pearson")


def mcc(
    codes: Any, factors: Any, seed: int = 0, *, correlation: str = "spearman"
) -> dict[str, float]:
    """Mean absolute correlation of each factor with its matched code.

        MCC = 1/K Σ_k |corr(v_k, z_π(k))|,    π the matching with the largest sum

    Args:
        codes: Codes `[n, d]`, mean or sampled.
        factors: Factors `[n, K]`; their values matter, not only which are equal.
        seed: Random seed for padding, and for sampling 10,000 rows if there are more.
        correlation: `"spearman"` (default), as in the protocol of SlowVAE, or `"pearson"`.

    Returns:
        `mcc`, for the chosen correlation; `spearman` and `pearson`, for both.

    Notes:
        As in the authors' implementation of SlowVAE, factors are padded with standard normal noise
        to the number of codes, all columns are matched, and the mean is over the real factors. If
        there are fewer codes than factors, unmatched factors score 0 (the SlowVAE implementation
        fails in this case). Constant codes also score 0. Constant factors are dropped.

    References:
        Hyvärinen and Morioka, Unsupervised Feature Extraction by Time-Contrastive Learning,
        arXiv:1605.06336; Klindt et al., Towards Nonlinear Disentanglement in Natural Data,
        arXiv:2007.10930.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> factors = rng.normal(size=(1000, 2))
        >>> codes = np.column_stack([rng.normal(size=1000), -factors[:, 1] ** 3, factors[:, 0]])
        >>> {name: round(score, 2) for name, score in mcc(codes, factors).items()}
        {'mcc': 1.0, 'spearman': 1.0, 'pearson': 0.88}
    """
    from scipy.stats import rankdata

    if correlation not in CORRELATIONS:
        raise UnknownNameError("correlation", correlation, CORRELATIONS)
    generator = numpy_rng(seed)
    rows = base.table(codes, factors)
    values = base.check_factors(factors)[:, rows.columns]
    chosen = base.choose_rows(len(rows), generator)
    z, v = rows.codes[chosen].astype(np.float64), values[chosen]
    noise = generator.normal(size=(len(z), max(z.shape[1] - v.shape[1], 0)))
    padded = np.column_stack([v, noise])
    both = {
        "spearman": matched_correlation(rankdata(z, axis=0), rankdata(padded, axis=0), v.shape[1]),
        "pearson": matched_correlation(z, padded, v.shape[1]),
    }
    return {"mcc": both[correlation], **both}


def matched_correlation(codes: np.ndarray, padded: np.ndarray, num_factors: int) -> float:
    """Match codes `[n, d]` with K factors and noise `[n, max(K, d)]`; average over the factors."""
    from scipy.optimize import linear_sum_assignment

    strength = np.abs(base.standardised(padded).T @ base.standardised(codes)) / len(codes)
    matched = linear_sum_assignment(strength, maximize=True)
    of_factor = np.zeros(padded.shape[1])
    of_factor[matched[0]] = strength[matched]
    return min(float(of_factor[:num_factors].mean()), 1.0)


MCC = Metric(
    function=mcc,
    label="MCC",
    explanation="Latents and factors are matched one to one. How strongly do they correlate?",
    failure="Categories and angles have no order, so even a perfect code need not correlate "
    "with them.",
)
