"""The fourth result, first part: do scores without labels say which models are disentangled?"""

from collections.abc import Sequence

import pandas as pd

from unweave.analysis.columns import DATA, UNSUPERVISED, choose, metrics_of
from unweave.analysis.correlation import rank_correlations

__all__ = ["unsupervised_selection"]


def unsupervised_selection(
    table: pd.DataFrame,
    scores: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    by: Sequence[str] = (DATA,),
) -> pd.DataFrame:
    """How far scores that need no labels rank models as metrics do.

        ρ = corr(rank(score), rank(metric))    over the models of a data set

    Args:
        table: A study table.
        scores: Columns that need no labels; by default those known that the table has
            (`reconstruction`, `kl`, `elbo`, total correlations …).
        metrics: Columns; by default every score of disentanglement that the table has.
        by: What to take apart: `("data",)`, or `("data", "method")` for models of one method.

    Returns:
        One row per data set, `score` and `metric`: `spearman`, `models` with both, `left_out`. The
        sign is that of the numbers as they stand: of a reconstruction error, less is better.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.
    """
    unsupervised = choose(table, scores, UNSUPERVISED, "score that needs no labels")
    names = ("score", "metric")
    return rank_correlations(table, unsupervised, metrics_of(table, metrics), names, by)
