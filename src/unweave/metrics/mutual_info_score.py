"""Mutual-information score: what pairs of codes say about each other."""

from typing import Any

import numpy as np

from unweave.metrics.base import Metric, draw_codes
from unweave.metrics.discretise import bins, mutual_information

__all__ = ["MUTUAL_INFO_SCORE", "mutual_info_score"]

PROTOCOL_ROWS = 10_000


def mutual_info_score(
    codes: Any,
    factors: Any = None,  # noqa: ARG001 - every metric takes them
    seed: int = 0,
) -> dict[str, float]:
    """The mean mutual information of two different codes, each cut into 20 bins, in nats.

        MI = Σ_{i≠j} I(z_i; z_j) / (d (d - 1))

    Args:
        codes: `[n, d]`, mean or sampled.
        factors: Not used.
        seed: Draws 10,000 rows where there are more.

    Returns:
        `mutual_info_score`.

    Notes:
        One code alone has nobody to share with and scores 0, where the reference divides by 0.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.

    Example:
        >>> z = np.random.default_rng(0).uniform(size=(10_000, 2))
        >>> round(mutual_info_score(z)["mutual_info_score"], 2)  # the bias of 20 x 20 bins
        0.02
        >>> round(mutual_info_score(z[:, [0, 0]])["mutual_info_score"], 2)  # log 20
        2.99
    """
    classes = bins(draw_codes(codes, PROTOCOL_ROWS, seed))
    num_codes = classes.shape[1]
    shared = mutual_information(classes, classes)
    np.fill_diagonal(shared, 0)
    return {"mutual_info_score": float(shared.sum()) / max(num_codes * (num_codes - 1), 1)}


MUTUAL_INFO_SCORE = Metric(
    name="mutual_info_score",
    label="mutual information",
    explanation="How much two latents know about each other, on average over pairs.",
    function=mutual_info_score,
    higher_is_better=False,
    bounds=(0.0, float(np.log(20))),
    needs="codes",
    cost="seconds",
    reference="Locatello et al., Challenging Common Assumptions, arXiv:1811.12359",
    failure="A few rows in 20 × 20 bins give independent codes a score above 0.",
)
