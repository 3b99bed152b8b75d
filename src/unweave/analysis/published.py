"""What the large study published, as data, and whether another study orders things alike.

Locatello et al., Challenging Common Assumptions in the Unsupervised Learning of Disentangled
Representations, ICML 2019, arXiv:1811.12359: 12,600 models, which are six objectives with six
strengths and 50 seeds each on seven data sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from unweave.analysis.columns import DATA, StudyTableError, require
from unweave.analysis.variance import OBJECTIVE, OBJECTIVE_STRENGTH

__all__ = ["Ordering", "compare_variance", "order", "published_variance", "variance_orderings"]

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
"""Variance of each metric explained, in percent; the rest is the seed's."""

MOSTLY = 0.75


@dataclass(frozen=True, kw_only=True, slots=True)
class Ordering:
    """How far two lists of numbers order the same things alike.

    Args:
        pairs: Pairs of things that the first list tells apart.
        agreeing: Those that the second list orders likewise.
    """

    pairs: int
    agreeing: int

    @property
    def holds(self) -> bool:
        """Whether every pair is ordered alike; not where there is none."""
        return 0 < self.pairs == self.agreeing

    def __str__(self) -> str:
        if not self.pairs:
            return "there is nothing to compare with the published ordering"
        share = f"{self.agreeing} of {self.pairs} pairs"
        if self.holds:
            return f"the published ordering holds ({share})"
        if self.agreeing >= MOSTLY * self.pairs:
            return f"the published ordering mostly holds ({share})"
        return f"the published ordering does not hold ({share}; chance is half of them)"


def order(published: Sequence[float], obtained: Sequence[float], slack: float = 0.0) -> Ordering:
    """Compare how two lists order the same things, pair by pair.

    Args:
        published: Numbers; pairs that differ by no more than `slack` are not counted.
        obtained: Numbers for the same things; equal ones agree with neither order. Things that
            lack one of the numbers are left out.
        slack: What counts as equal in `published`.

    Example:
        >>> print(order([80.7, 59.3, 54.9], [0.78, 0.55, 0.56]))
        the published ordering does not hold (2 of 3 pairs; chance is half of them)
        >>> order([80.7, 59.3, 54.9], [0.78, 0.57, 0.56]).holds
        True
    """
    first, second = np.asarray(published, float), np.asarray(obtained, float)
    if first.shape != second.shape or first.ndim != 1:
        raise StudyTableError(
            f"orderings need two lists of one length, but got {first.shape} and {second.shape}"
        )
    present = ~np.isnan(first) & ~np.isnan(second)
    first, second = first[present], second[present]
    a, b = np.triu_indices(len(first), 1)
    differs = np.abs(first[a] - first[b]) > slack
    alike = np.sign(first[a] - first[b]) == np.sign(second[a] - second[b])
    return Ordering(pairs=int(differs.sum()), agreeing=int((differs & alike).sum()))


def published_variance() -> pd.DataFrame:
    """The two published tables of variance explained, tidy.

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
    """Published and obtained variance explained, side by side.

    Args:
        explained: What `variance_explained` returns.

    Returns:
        One row per data set, `metric` and `grouping` that both have: `published`, `r2`,
        `adjusted_r2`, `null_r2`.
    """
    require(explained, (DATA, "metric", "grouping", "r2", "adjusted_r2", "null_r2"))
    said = published_variance().rename(columns={"r2": "published"})
    both = said.merge(explained, on=[DATA, "metric", "grouping"])
    kept = [DATA, "metric", "grouping", "published", "r2", "adjusted_r2", "null_r2"]
    return both[kept]


def variance_orderings(explained: pd.DataFrame, slack: float = 0.0) -> pd.DataFrame:
    """Whether a study orders the variance explained as the published tables do.

    Args:
        explained: What `variance_explained` returns.
        slack: Differences in published R² that do not count.

    Returns:
        One row per `claim`: for each grouping the order of all cells of its table, and that
        strength explains something in every cell; with `pairs`, `agreeing`, `holds`, `sentence`.
    """
    both = compare_variance(explained)
    # Adjusted, since a study with few seeds compares cells of different null levels.
    found = {
        f"cells by {grouping}": order(
            rows["published"].tolist(), rows["adjusted_r2"].tolist(), slack
        )
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
    """Adjusted R² by objective × strength against that by objective, in every cell."""
    wide = explained.pivot_table(
        index=[DATA, "metric"], columns="grouping", values="adjusted_r2", observed=True
    ).dropna()
    more = wide[OBJECTIVE_STRENGTH] > wide[OBJECTIVE]
    return Ordering(pairs=len(wide), agreeing=int(more.sum()))
