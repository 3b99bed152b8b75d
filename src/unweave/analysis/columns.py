"""The columns of a study table, and what is said where one is missing.

A study table has one row per model: what was trained (`run`, `data`, `method`, `strength`, `seed`,
`steps`), and a column for every number that was measured. A metric's headline has the metric's
name (`mig`), its further numbers follow a dot (`dci.completeness`), and whatever is measured on
sampled instead of mean codes begins with `sampled.` (`sampled.mig`).

A number that is not finite, as those of a diverged model, counts as missing everywhere.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from unweave.errors import UnweaveError
from unweave.metrics import METRICS, known_metric

__all__ = ["StudyTableError"]

DATA, METHOD, STRENGTH, SEED = "data", "method", "strength", "seed"
"""What tells models apart; a strength is comparable within its method only."""

SAMPLED = "sampled."
TOTAL_CORRELATION = "gaussian_total_correlation"
ACTIVE_TOTAL_CORRELATION = f"{TOTAL_CORRELATION}.active_total_correlation"

DOWNSTREAM = "downstream"
TASKS = ("downstream", "reduced_downstream", "strong_generalisation", "fairness")
"""Metrics that need factors, and score what codes are good for."""

SUPERVISED = tuple(
    name
    for name, metric in METRICS.items()
    if metric.needs in {"factors", "pairs", "densities"} and name not in TASKS
)
"""Scores of disentanglement, by the names of their columns."""

UNSUPERVISED = (
    "reconstruction",
    "elbo.reconstruction_error",
    "kl",
    "elbo.kl",
    "elbo",
    TOTAL_CORRELATION,
    SAMPLED + TOTAL_CORRELATION,
    "gaussian_wasserstein_correlation",
    "mutual_info_score",
    "active_units",
)
"""Scores that need no factors, by which models might be chosen without labels."""


class StudyTableError(UnweaveError):
    """A study table that lacks what an analysis needs."""


def require(table: Any, columns: Iterable[str], remedy: str = "") -> None:
    """Refuse what is no table with rows and these columns.

    Args:
        table: What a user gave.
        columns: Names that must be there.
        remedy: What to do about a missing one; by default, to give it or rename another.
    """
    if not isinstance(table, pd.DataFrame):
        raise StudyTableError(
            f"a study table must be a pandas DataFrame, but got {type(table).__name__}"
        )
    if table.empty:
        raise StudyTableError("the study table has no rows; train and score some models first")
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise StudyTableError(
            f"the study table has no column {missing[0]!r}; "
            + (remedy or "add it, or rename the column that holds it")
        )


def numbers(table: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """Columns as floats `[models, columns]`, NaN where a number is not finite."""
    require(table, columns, "score the models with it, or leave it out")
    for name in columns:
        if not pd.api.types.is_numeric_dtype(table[name]):
            raise StudyTableError(
                f"the column {name!r} must hold numbers, but holds {table[name].dtype}; "
                "convert it with pd.to_numeric"
            )
    values = table[list(columns)].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def choose(
    table: pd.DataFrame, asked: Sequence[str] | None, known: Sequence[str], what: str
) -> list[str]:
    """The columns to analyse: those asked for, or else those of the known ones that are there."""
    require(table, asked or (), "score the models with it, or leave it out")
    chosen = [name for name in known if name in table.columns] if asked is None else list(asked)
    if not chosen:
        raise StudyTableError(
            f"the study table has no {what}; score the models, or name columns "
            f"(known are {', '.join(known)})"
        )
    return chosen


def metrics_of(table: pd.DataFrame, asked: Sequence[str] | None) -> list[str]:
    """The scores of disentanglement to analyse."""
    return choose(table, asked, SUPERVISED, "score of disentanglement")


def higher_is_better(table: pd.DataFrame, metrics: Sequence[str]) -> np.ndarray:
    """Scores `[models, metrics]`, negative where lower is better, as of a metric's own record.

    Columns that are no metric's headline are taken as better when higher.
    """
    signs = []
    for name in metrics:
        metric = known_metric(name.removeprefix(SAMPLED))
        better = True if metric is None else metric.higher_is_better
        if better is None:
            raise StudyTableError(f"neither more nor less of {name!r} is better; leave it out")
        signs.append(1.0 if better else -1.0)
    return numbers(table, metrics) * np.array(signs)


def cells(table: pd.DataFrame, keys: Sequence[str]) -> tuple[np.ndarray, pd.DataFrame]:
    """Number the combinations of key columns in their order of appearance.

    A missing key, as the strength of a method without one, is a value of its own.

    Args:
        table: A study table.
        keys: Columns.

    Returns:
        The number of each row's combination `[rows]`, and a frame of the combinations.
    """
    require(table, keys)
    grouped = table.groupby(list(keys), dropna=False, observed=True, sort=False)
    index = grouped.ngroup().to_numpy()
    first = np.unique(index, return_index=True)[1]
    return index, table[list(keys)].iloc[first].reset_index(drop=True)


def parts(
    table: pd.DataFrame, keys: Sequence[str]
) -> Iterable[tuple[dict[str, Any], pd.DataFrame]]:
    """Each combination of key columns, with the rows that have it."""
    index, combinations = cells(table, keys)
    for number, combination in enumerate(combinations.to_dict("records")):
        yield combination, table[index == number]
