"""Rank correlations between columns of a study table; among metrics, the second result."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from unweave.analysis.columns import DATA, metrics_of, numbers, parts

__all__ = ["metric_agreement", "rank_correlations", "spearman"]

NOTE = (
    "Spearman's rank correlation over models, each pair of columns over the models that have "
    "both; a column of one value has no ranks and so no correlation."
)


def metric_agreement(
    table: pd.DataFrame, metrics: Sequence[str] | None = None, by: Sequence[str] = (DATA,)
) -> pd.DataFrame:
    """How far metrics rank the same models alike.

        ρ = corr(rank(metric), rank(other))    over the models of a data set

    Args:
        table: A study table.
        metrics: Columns; by default every score of disentanglement that the table has.
        by: What to take apart: `("data",)`, or `("data", "method")` for models of one method.

    Returns:
        One row per data set and ordered pair of metrics: `metric`, `other`, `spearman`, `models`
        with both scores, and `left_out`, those without.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.

    Example:
        >>> table = pd.DataFrame({"data": "a", "mig": [0.1, 0.2, 0.4], "sap": [0.3, 0.2, 0.1]})
        >>> metric_agreement(table)[["metric", "other", "spearman"]].round(1).values.tolist()
        [['mig', 'mig', 1.0], ['mig', 'sap', -1.0], ['sap', 'mig', -1.0], ['sap', 'sap', 1.0]]
    """
    chosen = metrics_of(table, metrics)
    return rank_correlations(table, chosen, chosen, names=("metric", "other"), by=by)


def rank_correlations(
    table: pd.DataFrame,
    left: Sequence[str],
    right: Sequence[str],
    names: tuple[str, str],
    by: Sequence[str] = (DATA,),
) -> pd.DataFrame:
    """Spearman's rank correlation of each left with each right column, part by part.

    Args:
        table: A study table.
        left: Columns.
        right: Columns.
        names: What the columns of the result that name a left and a right column are called.
        by: What to take apart.

    Returns:
        One row per part, left and right column: the two names, `spearman`, `models`, `left_out`.
    """
    found = []
    for part, rows in parts(table, by):
        rho, models = spearman(numbers(rows, left), numbers(rows, right))
        frame = pd.DataFrame(
            {
                names[0]: np.repeat(list(left), len(right)),
                names[1]: np.tile(list(right), len(left)),
                "spearman": rho.ravel(),
                "models": models.ravel(),
                "left_out": len(rows) - models.ravel(),
            }
        )
        for position, (key, value) in enumerate(part.items()):
            frame.insert(position, key, value)
        found.append(frame)
    result = pd.concat(found, ignore_index=True)
    result.attrs["note"] = NOTE
    return result


def spearman(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Spearman's rank correlation of every left with every right column.

        ρ = corr(rank(x), rank(y)),    equal values sharing their mean rank

    Args:
        left: `[n, p]`, NaN where missing.
        right: `[n, q]`.

    Returns:
        The correlations `[p, q]`, NaN where fewer than two rows have both or one is constant, and
        the numbers of rows that have both `[p, q]`.

    Example:
        >>> spearman(np.array([[1.0], [2], [np.nan], [3]]), np.array([[10.0], [30], [0], [20]]))
        (array([[0.5]]), array([[3]]))
    """
    shape = left.shape[1], right.shape[1]
    rho, count = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    # Diverged models mostly lack all scores at once, so that few patterns have to be ranked anew.
    for left_rows, left_columns in _patterns(left):
        for right_rows, right_columns in _patterns(right):
            rows, block = left_rows & right_rows, np.ix_(left_columns, right_columns)
            count[block] = rows.sum()
            if count[block].min() >= 2:
                rho[block] = _normed_ranks(left[np.ix_(rows, left_columns)]).T @ (
                    _normed_ranks(right[np.ix_(rows, right_columns)])
                )
    return np.clip(rho, -1, 1), count


def _patterns(values: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Sets of columns that have the same rows: which rows, which columns."""
    patterns, which = np.unique(~np.isnan(values), axis=1, return_inverse=True)
    for number, rows in enumerate(patterns.T):
        yield rows, np.flatnonzero(which.ravel() == number)


def _normed_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks of each column, centred and of length 1; NaN for a constant column."""
    ranks = rankdata(values, axis=0)
    ranks -= ranks.mean(0)
    length = np.sqrt((ranks**2).sum(0))
    return ranks / np.where(length > 0, length, np.nan)
