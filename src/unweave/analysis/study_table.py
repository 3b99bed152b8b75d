"""Columns of a study table, and errors for missing ones.

A study table has one row per model: its settings (`run`, `data`, `method`, `strength`, `seed`,
`steps`) and a column for every measured score. The headline score of a metric has the metric's
name (`mig`), its other scores follow a dot (`dci.completeness`), and scores of sampled instead of
mean codes begin with `sampled.` (`sampled.mig`).

Non-finite numbers, such as those of a diverged model, always count as missing.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from unweave.errors import UnweaveError
from unweave.metrics import METRICS, known_metric

__all__ = ["StudyTableError"]

DATA, METHOD, STRENGTH, SEED = "data", "method", "strength", "seed"
"""Columns that identify models; strengths are comparable only within a method."""

SAMPLED = "sampled."
TOTAL_CORRELATION = "gaussian_total_correlation"
ACTIVE_TOTAL_CORRELATION = f"{TOTAL_CORRELATION}.active_total_correlation"

DOWNSTREAM = "downstream"
TASKS = ("downstream", "reduced_downstream", "strong_generalisation", "fairness")
"""Metrics that need factors but measure the usefulness of codes."""

SUPERVISED = tuple(
    name
    for name, metric in METRICS.items()
    if metric.needs in {"factors", "pairs", "densities"} and name not in TASKS
)
"""Columns of disentanglement scores."""

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
"""Scores that need no factors and might be used to select models without labels."""


class StudyTableError(UnweaveError):
    """Raised if a study table lacks what an analysis needs."""


def require(
    table: Any,
    columns: Iterable[str],
    remedy: str = "add it, or rename the column that holds it",
) -> None:
    """Raise an error, with a remedy, unless `table` has rows and these columns."""
    if not isinstance(table, pd.DataFrame):
        raise StudyTableError.must("table", "be a pandas DataFrame", type(table))
    if table.empty:
        raise StudyTableError(
            "the study table has no rows; train and score some models first",
            subject="table",
            value=0,
        )
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise StudyTableError(
            f"the study table has no column {missing[0]!r}; {remedy}", subject=missing[0]
        )


def numbers(table: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """Return columns as floats `[models, columns]`, NaN for non-finite numbers."""
    require(table, columns, "score the models with it, or leave it out")
    for name in columns:
        if not pd.api.types.is_numeric_dtype(table[name]):
            raise StudyTableError(
                f"column {name!r} must be numeric, got {table[name].dtype}; "
                "convert it with pd.to_numeric",
                subject=name,
                value=table[name].dtype,
            )
    values = table[list(columns)].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def choose(
    table: pd.DataFrame, requested: Sequence[str] | None, known: Sequence[str], what: str
) -> list[str]:
    """Return the requested columns, or all known ones in the table."""
    require(table, requested or (), "score the models with it, or leave it out")
    chosen = (
        [name for name in known if name in table.columns] if requested is None else list(requested)
    )
    if not chosen:
        raise StudyTableError(
            f"the study table has no {what}; score the models, or pass columns "
            f"(known: {', '.join(known)})",
            subject=what,
        )
    return chosen


def metrics_of(table: pd.DataFrame, requested: Sequence[str] | None) -> list[str]:
    """Return the disentanglement scores to analyse."""
    return choose(table, requested, SUPERVISED, "disentanglement score")


def higher_is_better(table: pd.DataFrame, metrics: Sequence[str]) -> np.ndarray:
    """Return scores `[models, metrics]`, negated for metrics where lower is better.

    For other columns, higher counts as better.
    """
    signs = []
    for name in metrics:
        metric = known_metric(name.removeprefix(SAMPLED))
        better = True if metric is None else metric.higher_is_better
        if better is None:
            raise StudyTableError(
                f"{name!r} cannot be ranked: neither higher nor lower values are better; leave "
                "it out",
                subject=name,
            )
        signs.append(1.0 if better else -1.0)
    return numbers(table, metrics) * np.array(signs)


def cells(table: pd.DataFrame, keys: Sequence[str]) -> tuple[np.ndarray, pd.DataFrame]:
    """Return the number of each row's combination of key columns `[rows]`, and all combinations.

    They are numbered in order of appearance. A missing key, such as the strength of a method
    without one, counts as a value.
    """
    require(table, keys)
    grouped = table.groupby(list(keys), dropna=False, observed=True, sort=False)
    index = grouped.ngroup().to_numpy()
    first = np.unique(index, return_index=True)[1]
    return index, table[list(keys)].iloc[first].reset_index(drop=True)


def with_note(frame: pd.DataFrame, note: str) -> pd.DataFrame:
    """Add an explanation to a frame as `.attrs["note"]`."""
    frame.attrs["note"] = note
    return frame


def parts(
    table: pd.DataFrame, keys: Sequence[str]
) -> Iterable[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield each combination of key columns with its rows."""
    index, combinations = cells(table, keys)
    for number, combination in enumerate(combinations.to_dict("records")):
        yield combination, table[index == number]
