"""The fifth result: does disentanglement help to learn from codes, and from fewer labels?"""

import re
from collections.abc import Sequence

import pandas as pd

from unweave.analysis.columns import DATA, DOWNSTREAM, StudyTableError, metrics_of, require
from unweave.analysis.correlation import rank_correlations

__all__ = ["downstream_agreement"]

COLUMN = re.compile(rf"{DOWNSTREAM}\.(?P<predictor>\w+?)_(?:accuracy_(?P<rows>\d+)|efficiency)")
NOTE = (
    "A correlation with accuracy is no cause: both can follow from how much a code knows at all. "
    "Statistical efficiency, accuracy from 100 rows over that from the most, asks whether fewer "
    "labels do."
)


def downstream_agreement(
    table: pd.DataFrame,
    tasks: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    by: Sequence[str] = (DATA,),
) -> pd.DataFrame:
    """How far metrics rank models as downstream accuracy and statistical efficiency do.

        efficiency = accuracy(100) / accuracy(10,000)
        ρ = corr(rank(metric), rank(accuracy or efficiency))    over the models of a data set

    Args:
        table: A study table.
        tasks: Columns; by default those of the metric `downstream` that are there
            (`downstream.trees_accuracy_100`, `downstream.logistic_efficiency` …).
        metrics: Columns; by default every score of disentanglement that the table has.
        by: What to take apart: `("data",)`, or `("data", "method")` for models of one method.

    Returns:
        One row per data set, `metric` and `task`: `predictor`, `measure` (accuracy or efficiency),
        `rows` learned from (0 for an efficiency), `spearman`, `models` with both, `left_out`.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.
    """
    chosen = _tasks(table) if tasks is None else list(tasks)
    found = rank_correlations(table, metrics_of(table, metrics), chosen, ("metric", "task"), by)
    named = found["task"].str.extract(COLUMN.pattern)
    position = found.columns.get_loc("task") + 1
    found.insert(position, "predictor", named["predictor"].fillna(""))
    efficiency = found["task"].str.endswith("efficiency")
    found.insert(position + 1, "measure", efficiency.map({True: "efficiency", False: "accuracy"}))
    found.insert(position + 2, "rows", named["rows"].fillna("0").astype(int))
    found.attrs["note"] = NOTE
    return found


def _tasks(table: pd.DataFrame) -> list[str]:
    """The columns of accuracies over all factors and of efficiencies, by predictor and rows."""
    require(table, ())
    matches = [match for name in table.columns if (match := COLUMN.fullmatch(str(name)))]
    if not matches:
        raise StudyTableError(
            "the study table has no downstream accuracies; score the models with downstream, or "
            "name columns as tasks"
        )
    # Efficiency, which has no number of rows, comes after the accuracies.
    matches.sort(key=lambda match: (match["predictor"], int(match["rows"] or 10**12)))
    return [match.string for match in matches]
