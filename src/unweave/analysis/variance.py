"""The third result, second part: how much of a score objective and strength explain."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from unweave.analysis.columns import DATA, METHOD, STRENGTH, cells, metrics_of, numbers, parts

__all__ = ["OBJECTIVE", "OBJECTIVE_STRENGTH", "r_squared", "variance_explained"]

OBJECTIVE = "objective"
OBJECTIVE_STRENGTH = "objective × strength"
GROUPINGS = {OBJECTIVE: (METHOD,), OBJECTIVE_STRENGTH: (METHOD, STRENGTH)}

NOTE = (
    "The more cells, the more R² noise alone would reach: null_r2 = (cells - 1) / (models - 1); "
    "with few seeds read adjusted_r2, which is 0 on average for noise. What is left over is the "
    "seed's."
)


def variance_explained(table: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """The share of a score's variance between cells: objectives, or objectives × strengths.

        R² = 1 - Σ (s - mean of its cell)² / Σ (s - mean)²
        adjusted R² = 1 - (1 - R²) (n - 1) / (n - k),    null R² = (k - 1) / (n - 1)

    which is the R² of regressing n scores on k one-hot cells.

    Args:
        table: A study table.
        metrics: Columns; by default every score of disentanglement that the table has.

    Returns:
        One row per data set, `metric` and `grouping` (`"objective"`, `"objective × strength"`):
        `r2`, `adjusted_r2`, `null_r2` (5/1799 and 35/1799 in the full study), `cells`, `models`,
        and `left_out`, the models without this score.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.

    Example:
        >>> table = pd.DataFrame({"data": "a", "method": list("vvff"), "strength": 1})
        >>> explained = variance_explained(table.assign(mig=[1.0, 3, 5, 7]))
        >>> explained.loc[0, ["r2", "adjusted_r2", "null_r2"]].astype(float).round(2).tolist()
        [0.8, 0.7, 0.33]
    """
    chosen = metrics_of(table, metrics)
    found = []
    for part, rows in parts(table, (DATA,)):
        scores = numbers(rows, chosen)
        for grouping, keys in GROUPINGS.items():
            index, _ = cells(rows, keys)
            found += [
                {**part, "metric": metric, "grouping": grouping, **_row(column, index)}
                for metric, column in zip(chosen, scores.T, strict=True)
            ]
    result = pd.DataFrame(found)
    result.attrs["note"] = NOTE
    return result


def r_squared(scores: np.ndarray, index: np.ndarray) -> float:
    """R² of scores `[n]` on the one-hot numbers `[n]` of their cells; NaN for constant scores.

    Example:
        >>> r_squared(np.array([1.0, 3, 5, 7]), np.array([0, 0, 1, 1]))
        0.8
    """
    if len(scores) == 0 or np.ptp(scores) == 0:
        return float("nan")
    centred = scores - scores.mean()
    total = float(centred @ centred)
    sizes, sums = np.bincount(index), np.bincount(index, centred)
    between = float((sums[sizes > 0] ** 2 / sizes[sizes > 0]).sum())
    return min(1.0, between / total)


def _row(column: np.ndarray, index: np.ndarray) -> dict[str, float]:
    scored = ~np.isnan(column)
    models, present = int(scored.sum()), len(np.unique(index[scored]))
    r2 = r_squared(column[scored], index[scored])
    within = models - present
    return {
        "r2": r2,
        "adjusted_r2": 1 - (1 - r2) * (models - 1) / within if within else float("nan"),
        "null_r2": (present - 1) / (models - 1) if models > 1 else float("nan"),
        "cells": present,
        "models": models,
        "left_out": len(column) - models,
    }
