"""Mutual information score: shared information between pairs of codes."""

from typing import Any

import numpy as np

from unweave.metrics.base import Metric, draw_codes
from unweave.metrics.tools.discretise import bins, mutual_information

__all__ = ["MUTUAL_INFO_SCORE", "mutual_info_score"]


def mutual_info_score(codes: Any, factors: Any = None, seed: int = 0) -> dict[str, float]:
    """Mean mutual information between pairs of codes, each split into 20 bins, in nats.

        MI = Σ_{i≠j} I(z_i; z_j) / (d (d - 1))

    Args:
        codes: Codes `[n, d]`, mean or sampled.
        factors: Not used.
        seed: Random seed for sampling 10,000 rows if there are more.

    Returns:
        `mutual_info_score`.

    Notes:
        A single code scores 0, where the reference divides by 0.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.

    Example:
        >>> z = np.random.default_rng(0).uniform(size=(10_000, 2))
        >>> round(mutual_info_score(z)["mutual_info_score"], 2)  # the bias of 20 x 20 bins
        0.02
        >>> round(mutual_info_score(z[:, [0, 0]])["mutual_info_score"], 2)  # log 20
        2.99
    """
    classes = bins(draw_codes(codes, seed))
    num_codes = classes.shape[1]
    shared = mutual_information(classes, classes)
    np.fill_diagonal(shared, 0)
    return {"mutual_info_score": float(shared.sum()) / max(num_codes * (num_codes - 1), 1)}


MUTUAL_INFO_SCORE = Metric(
    function=mutual_info_score,
    label="mutual information",
    explanation="Mean mutual information between pairs of latents.",
    higher_is_better=False,
    bounds=(0.0, float(np.log(20))),
    needs="codes",
    failure="With few rows, 20 × 20 bins give independent codes a score above 0.",
)
