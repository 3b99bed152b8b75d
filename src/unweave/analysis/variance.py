"""Key result 3, part 2: the share of a score's variance explained by objective and strength.

Results of a study are compared with the published ones and their order: Locatello et al.,
Challenging Common Assumptions in the Unsupervised Learning of Disentangled Representations, ICML
2019, arXiv:1811.12359. That study has 12,600 models: six objectives, six strengths and 50 seeds
each on seven data sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from unweave.analysis.study_table import (
    DATA,
    METHOD,
    STRENGTH,
    StudyTableError,
    cells,
    metrics_of,
    numbers,
    parts,
    require,
    with_note,
)

__all__ = [
    "OBJECTIVE",
    "OBJECTIVE_STRENGTH",
    "Ordering",
    "compare_variance",
    "order",
    "published_variance",
    "r_squared",
    "variance_explained",
    "variance_orderings",
]

OBJECTIVE = "objective"
OBJECTIVE_STRENGTH = "objective × strength"
GROUPINGS = {OBJECTIVE: (METHOD,), OBJECTIVE_STRENGTH: (METHOD, STRENGTH)}

NOTE = (
    "Noise alone reaches null_r2 = (cells - 1) / (models - 1), which grows with the number of "
    "cells. With few seeds, use adjusted_r2, which is 0 on average for noise. The remaining "
    "variance is due to the seed."
)

METRIC_COLUMNS = ("beta_vae", "dci", "factor_vae", "mig", "modularity", "sap")
VARIANCE_PERCENT = {
    OBJECTIVE: {
        "cars3d": (1, 36, 26, 34, 37, 13),
        "color_dsprites": (30, 39, 52, 26, 23, 29),
        "noisy_dsprites": (17, 21, 17, 11, 41, 6),
        "scream_dsprites": (89, 50, 76, 45, 60, 56),
        "shapes3d": (31, 21, 14, 20, 26, 10),
        "smallnorb": (68, 71, 58, 71, 62, 62),
        "dsprites": (29, 41, 47, 26, 29, 31),
    },
    OBJECTIVE_STRENGTH: {
        "cars3d": (4, 69, 42, 59, 51, 17),
        "color_dsprites": (69, 80, 61, 76, 40, 56),
        "noisy_dsprites": (26, 42, 25, 29, 50, 20),
        "scream_dsprites": (93, 74, 83, 66, 68, 75),
        "shapes3d": (61, 78, 53, 59, 49, 35),
        "smallnorb": (87, 89, 81, 88, 72, 82),
        "dsprites": (59, 77, 54, 72, 39, 56),
    },
}
"""Percentage of the variance of each metric explained; the rest is due to the seed."""

MOSTLY = 0.75


def variance_explained(table: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """Compute the share of a score's variance explained by objective, or objective × strength.

        R² = 1 - Σ (s - mean of its cell)² / Σ (s - mean)²
        adjusted R² = 1 - (1 - R²) (n - 1) / (n - k),    null R² = (k - 1) / (n - 1)

    which is the R² of regressing n scores on k one-hot cells.

    Args:
        table: A study table.
        metrics: Columns (default: all disentanglement scores in the table).

    Returns:
        One row per data set, `metric` and `grouping` (`"objective"`, `"objective × strength"`):
        `r2`, `adjusted_r2`, `null_r2` (5/1799 and 35/1799 in the full study), `cells`, `models`,
        and `left_out`, the number of models without this score.

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
    return with_note(pd.DataFrame(found), NOTE)


def r_squared(scores: np.ndarray, index: np.ndarray) -> float:
    """Compute R² of scores `[n]` for one-hot cell numbers `[n]`; NaN for constant scores.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Ordering:
    """Agreement of two lists of numbers on the order of the same items.

    Args:
        pairs: Number of pairs of items that the first list orders.
        agreeing: Number of these pairs that the second list orders in the same way.
    """

    pairs: int
    agreeing: int

    @property
    def holds(self) -> bool:
        """Whether there are pairs and all of them are ordered in the same way."""
        return 0 < self.pairs == self.agreeing

    def __str__(self) -> str:
        if not self.pairs:
            return "there is nothing to compare with the published ordering"
        share = f"{self.agreeing} of {self.pairs} pairs"
        if self.holds:
            return f"the published ordering holds ({share})"
        if self.agreeing >= MOSTLY * self.pairs:
            return f"the published ordering mostly holds ({share})"
        return f"the published ordering does not hold ({share}; chance level is half)"


def order(published: Sequence[float], obtained: Sequence[float], slack: float = 0.0) -> Ordering:
    """Compare the order of the same items in two lists, pair by pair.

    Args:
        published: Numbers; pairs that differ by at most `slack` are ignored.
        obtained: Numbers for the same items; equal numbers agree with neither order. Items with a
            missing number are ignored.
        slack: Largest difference in `published` that counts as equal.

    Example:
        >>> print(order([80.7, 59.3, 54.9], [0.78, 0.55, 0.56]))
        the published ordering does not hold (2 of 3 pairs; chance level is half)
        >>> order([80.7, 59.3, 54.9], [0.78, 0.57, 0.56]).holds
        True
    """
    first, second = np.asarray(published, float), np.asarray(obtained, float)
    if first.shape != second.shape or first.ndim != 1:
        raise StudyTableError.must("obtained", f"be a list of {len(published)}", second.shape)
    present = ~np.isnan(first) & ~np.isnan(second)
    first, second = first[present], second[present]
    a, b = np.triu_indices(len(first), 1)
    differs = np.abs(first[a] - first[b]) > slack
    alike = np.sign(first[a] - first[b]) == np.sign(second[a] - second[b])
    return Ordering(pairs=int(differs.sum()), agreeing=int((differs & alike).sum()))


def published_variance() -> pd.DataFrame:
    """Return the two published tables of variance explained as a tidy frame.

    Returns:
        One row per data set, `metric` and `grouping`, with `r2` between 0 and 1.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.

    Example:
        >>> tables = published_variance()
        >>> tables[(tables.data == "cars3d") & (tables.metric == "dci")].r2.tolist()
        [0.36, 0.69]
    """
    return pd.DataFrame(
        [
            {DATA: data, "metric": metric, "grouping": grouping, "r2": percent / 100}
            for grouping, tables in VARIANCE_PERCENT.items()
            for data, row in tables.items()
            for metric, percent in zip(METRIC_COLUMNS, row, strict=True)
        ]
    )


def compare_variance(explained: pd.DataFrame) -> pd.DataFrame:
    """Return published and obtained variance explained side by side.

    Args:
        explained: Result of `variance_explained`.

    Returns:
        One row per data set, `metric` and `grouping` in both: `published`, `r2`,
        `adjusted_r2`, `null_r2`.
    """
    require(explained, (DATA, "metric", "grouping", "r2", "adjusted_r2", "null_r2"))
    published = published_variance().rename(columns={"r2": "published"})
    both = published.merge(explained, on=[DATA, "metric", "grouping"])
    columns = [DATA, "metric", "grouping", "published", "r2", "adjusted_r2", "null_r2"]
    return both[columns]


def variance_orderings(explained: pd.DataFrame, slack: float = 0.0) -> pd.DataFrame:
    """Test whether a study orders the variance explained like the published tables.

    Args:
        explained: Result of `variance_explained`.
        slack: Largest difference in published R² that is ignored.

    Returns:
        One row per `claim`: the order of all cells, for each grouping, and whether strength
        explains more in every cell; with `pairs`, `agreeing`, `holds`, `sentence`.
    """
    both = compare_variance(explained)
    # Adjusted R² is used because cells have different null levels if there are few seeds.
    found = {
        f"cells by {grouping}": order(rows["published"], rows["adjusted_r2"], slack)
        for grouping in VARIANCE_PERCENT
        for rows in [both[both["grouping"] == grouping]]
    }
    found[f"{OBJECTIVE_STRENGTH} explains more than {OBJECTIVE}"] = _strength_matters(explained)
    return pd.DataFrame(
        [
            {
                "claim": claim,
                "pairs": ordering.pairs,
                "agreeing": ordering.agreeing,
                "holds": ordering.holds,
                "sentence": str(ordering),
            }
            for claim, ordering in found.items()
        ]
    )


def _strength_matters(explained: pd.DataFrame) -> Ordering:
    """Compare the adjusted R² of objective × strength with that of objective alone, per cell."""
    wide = explained.pivot_table(
        index=[DATA, "metric"], columns="grouping", values="adjusted_r2", observed=True
    ).dropna()
    more = wide[OBJECTIVE_STRENGTH] > wide[OBJECTIVE]
    return Ordering(pairs=len(wide), agreeing=int(more.sum()))
