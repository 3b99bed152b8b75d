"""MCC: the mean correlation of factors with codes, matched one to one."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import (
    Metric,
    MetricError,
    check_factors,
    choose_rows,
    standardised,
    table,
)

__all__ = ["MCC", "mcc"]

PROTOCOL_ROWS = 10_000


def mcc(
    codes: Any, factors: Any, seed: int = 0, *, correlation: str = "spearman"
) -> dict[str, float]:
    """Mean absolute correlation of each factor with the code that is matched to it.

        MCC = 1/K Σ_k |corr(v_k, z_π(k))|,    π the matching of largest sum

    Args:
        codes: `[n, d]`, mean or sampled.
        factors: `[n, K]`; their values count, not only which are equal.
        seed: Draws 10,000 rows where there are more, and the noise that pads the factors.
        correlation: `"spearman"`, as in SlowVAE's protocol, or `"pearson"`.

    Returns:
        `mcc` by the correlation asked for, and both: `spearman`, `pearson`.

    Notes:
        As in SlowVAE's code, factors are padded with standard normal noise up to the number of
        codes, all of them are matched, and the mean is over the real ones. With fewer codes than
        factors, where that code fails, factors that stay alone count 0; so do constant codes.
        Factors with one value are left out.

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
    if correlation not in ("spearman", "pearson"):
        raise MetricError(f"correlation must be spearman or pearson, not {correlation!r}")
    generator = numpy_rng(seed)
    rows = table(codes, factors)
    values = check_factors(factors)[:, rows.columns]
    chosen = choose_rows(len(rows), PROTOCOL_ROWS, generator)
    picked = slice(None) if chosen is None else chosen
    z, v = rows.codes[picked].astype(np.float64), values[picked]
    noise = generator.normal(size=(len(z), max(z.shape[1] - v.shape[1], 0)))
    padded = np.column_stack([v, noise])
    both = {
        "spearman": matched_correlation(_ranked(z), _ranked(padded), v.shape[1]),
        "pearson": matched_correlation(z, padded, v.shape[1]),
    }
    return {"mcc": both[correlation], **both}


def matched_correlation(codes: np.ndarray, padded: np.ndarray, num_factors: int) -> float:
    """Match the columns of two tables, and average over the first factors.

    Args:
        codes: `[n, d]`.
        padded: `[n, max(K, d)]`: factors, then noise.
        num_factors: K.
    """
    from scipy.optimize import linear_sum_assignment

    strength = np.abs(standardised(padded).T @ standardised(codes)) / len(codes)
    matched = linear_sum_assignment(strength, maximize=True)
    of_factor = np.zeros(padded.shape[1])
    of_factor[matched[0]] = strength[matched]
    return min(float(of_factor[:num_factors].mean()), 1.0)


def _ranked(columns: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata

    return rankdata(columns, axis=0)


MCC = Metric(
    name="mcc",
    label="MCC",
    explanation="Latents and factors are matched one to one. How far do they correlate?",
    function=mcc,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="factors",
    cost="seconds",
    reference=(
        "Hyvärinen and Morioka, Unsupervised Feature Extraction by Time-Contrastive Learning, "
        "arXiv:1605.06336"
    ),
    failure="Categories and angles have no order, so a perfect code of them need not correlate.",
)
