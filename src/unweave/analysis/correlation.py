"""Rank correlations over models: between metrics, label-free scores and downstream tasks.

These are the second, fourth and fifth results of the large study.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from unweave.analysis.study_table import (
    DATA,
    DOWNSTREAM,
    UNSUPERVISED,
    StudyTableError,
    choose,
    metrics_of,
    numbers,
    parts,
    require,
    with_note,
)

__all__ = [
    "downstream_agreement",
    "metric_agreement",
    "rank_correlations",
    "spearman",
    "unsupervised_selection",
]

TASK_COLUMN = re.compile(
    rf"{DOWNSTREAM}\.(?P<predictor>\w+?)_(?:accuracy_(?P<rows>\d+)|efficiency)"
)
DOWNSTREAM_NOTE = (
    "Correlation with accuracy is not causal: both can result from how much information a code "
    "has. Statistical efficiency, the accuracy from 100 rows divided by that from the most rows, "
    "shows whether fewer labels are enough."
)
NOTE = (
    "Spearman's rank correlation over models; each pair of columns is compared over the models "
    "that have both. A constant column has no rank correlation."
)


def metric_agreement(
    table: pd.DataFrame, metrics: Sequence[str] | None = None, by: Sequence[str] = (DATA,)
) -> pd.DataFrame:
    """Measure how similarly metrics rank the same models.

        ρ = corr(rank(metric), rank(other))    over the models of a data set

    Args:
        table: A study table.
        metrics: Columns (default: all disentanglement scores in the table).
        by: Columns to group by: `("data",)` (default), or `("data", "method")`.

    Returns:
        One row per data set and ordered pair of metrics: `metric`, `other`, `spearman`, `models`
        with both scores, and `left_out`, the number of models without.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.

    Example:
        >>> table = pd.DataFrame({"data": "a", "mig": [0.1, 0.2, 0.4], "sap": [0.3, 0.2, 0.1]})
        >>> metric_agreement(table)[["metric", "other", "spearman"]].round(1).values.tolist()
        [['mig', 'mig', 1.0], ['mig', 'sap', -1.0], ['sap', 'mig', -1.0], ['sap', 'sap', 1.0]]
    """
    chosen = metrics_of(table, metrics)
    return rank_correlations(table, chosen, chosen, names=("metric", "other"), by=by)


def unsupervised_selection(
    table: pd.DataFrame,
    scores: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    by: Sequence[str] = (DATA,),
) -> pd.DataFrame:
    """Measure how well scores that need no labels rank models, compared with metrics.

        ρ = corr(rank(score), rank(metric))    over the models of a data set

    Args:
        table: A study table.
        scores: Columns that need no labels (default: all known ones in the table, such as
            `reconstruction`, `kl`, `elbo` and total correlations).
        metrics: Columns (default: all disentanglement scores in the table).
        by: Columns to group by: `("data",)` (default), or `("data", "method")`.

    Returns:
        One row per data set, `score` and `metric`: `spearman`, `models` with both, `left_out`.
        Signs are those of the raw numbers; for a reconstruction error, lower is better.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.
    """
    unsupervised = choose(table, scores, UNSUPERVISED, "label-free score")
    names = ("score", "metric")
    return rank_correlations(table, unsupervised, metrics_of(table, metrics), names, by)


def downstream_agreement(
    table: pd.DataFrame,
    tasks: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    by: Sequence[str] = (DATA,),
) -> pd.DataFrame:
    """Measure how similarly metrics and downstream accuracy or efficiency rank models.

        efficiency = accuracy(100) / accuracy(10,000)
        ρ = corr(rank(metric), rank(accuracy or efficiency))    over the models of a data set

    Args:
        table: A study table.
        tasks: Columns (default: those of the metric `downstream` in the table, such as
            `downstream.trees_accuracy_100` and `downstream.logistic_efficiency`).
        metrics: Columns (default: all disentanglement scores in the table).
        by: Columns to group by: `("data",)` (default), or `("data", "method")`.

    Returns:
        One row per data set, `metric` and `task`: `predictor`, `measure` (accuracy or efficiency),
        training `rows` (0 for an efficiency), `spearman`, `models` with both, `left_out`.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.
    """
    chosen = _tasks(table) if tasks is None else list(tasks)
    found = rank_correlations(table, metrics_of(table, metrics), chosen, ("metric", "task"), by)
    named = found["task"].str.extract(TASK_COLUMN.pattern)
    position = found.columns.get_loc("task") + 1
    found.insert(position, "predictor", named["predictor"].fillna(""))
    efficiency = found["task"].str.endswith("efficiency")
    found.insert(position + 1, "measure", efficiency.map({True: "efficiency", False: "accuracy"}))
    found.insert(position + 2, "rows", named["rows"].fillna("0").astype(int))
    return with_note(found, DOWNSTREAM_NOTE)


def _tasks(table: pd.DataFrame) -> list[str]:
    """Return the columns of mean accuracies and efficiencies, sorted by predictor and rows."""
    require(table, ())
    matches = [match for name in table.columns if (match := TASK_COLUMN.fullmatch(str(name)))]
    if not matches:
        raise StudyTableError(
            "the study table has no downstream accuracies; score the models with the metric "
            "downstream, or pass columns as tasks",
            subject="tasks",
        )
    # Efficiencies, which have no number of rows, come after the accuracies.
    matches.sort(key=lambda match: (match["predictor"], int(match["rows"] or 10**12)))
    return [match.string for match in matches]


def rank_correlations(
    table: pd.DataFrame,
    left: Sequence[str],
    right: Sequence[str],
    names: tuple[str, str],
    by: Sequence[str] = (DATA,),
) -> pd.DataFrame:
    """Compute Spearman's rank correlation of each left and right column within each group.

    Returns:
        One row per group, left and right column: the two columns under `names`, `spearman`,
        `models`, `left_out`.
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
    return with_note(pd.concat(found, ignore_index=True), NOTE)


def spearman(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute Spearman's rank correlation of every left and right column.

        ρ = corr(rank(x), rank(y)),    equal values share their mean rank

    Args:
        left: Columns `[n, p]`, NaN where missing.
        right: Columns `[n, q]`.

    Returns:
        Correlations `[p, q]`, NaN if fewer than two rows have both or one is constant, and the
        number of rows that have both, `[p, q]`.

    Example:
        >>> spearman(np.array([[1.0], [2], [np.nan], [3]]), np.array([[10.0], [30], [0], [20]]))
        (array([[0.5]]), array([[3]]))
    """
    shape = left.shape[1], right.shape[1]
    rho, count = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    # Diverged models usually lack all scores, so there are few different patterns to rank.
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
    """Yield rows and columns of each group of columns that have the same rows present."""
    patterns, which = np.unique(~np.isnan(values), axis=1, return_inverse=True)
    for number, rows in enumerate(patterns.T):
        yield rows, np.flatnonzero(which.ravel() == number)


def _normed_ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of each column, centred and normalised; NaN for a constant column."""
    from scipy.stats import rankdata  # half a second, which loading models need not take

    ranks = rankdata(values, axis=0)
    ranks -= ranks.mean(0)
    length = np.sqrt((ranks**2).sum(0))
    return ranks / np.where(length > 0, length, np.nan)
