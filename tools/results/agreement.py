"""Counts of how far obtained results agree with published ones."""

from dataclasses import dataclass

import pandas as pd

from unweave import analysis

LEVELS = {"strong": 2.0, "mild": 1.0, "less": 0.0}
"""Order of the words that papers use for correlations."""
MOSTLY = 0.75


@dataclass(frozen=True)
class Agreement:
    """Number of comparisons that agree with the published results.

    Args:
        agreeing: Number of comparisons that agree.
        total: Number of comparisons.
        of: Kind of comparison: `rows` by equality of words, `pairs` by order of numbers.
    """

    agreeing: int
    total: int
    of: str

    @property
    def verdict(self) -> str:
        """Short statement of whether the claim holds.

        Example:
            >>> [Agreement(n, 4, "rows").verdict for n in (4, 3, 2)]
            ['holds', 'mostly holds', 'does not hold']
            >>> Agreement(3, 3, "pairs").verdict
            'the order holds'
        """
        if not self.total:
            return "nothing to compare"
        what = "the order " if self.of == "pairs" else ""
        if self.agreeing == self.total:
            return f"{what}holds"
        mostly = self.agreeing >= MOSTLY * self.total
        return what + ("mostly holds" if mostly else "does not hold")

    def __str__(self) -> str:
        return f"{self.agreeing} of {self.total} {self.of}" if self.total else "–"


def agreement(frame: pd.DataFrame) -> Agreement:
    """Count rows that equal the published ones, or pairs that are ordered as published.

    Args:
        frame: Result of a recipe with the columns `published` and `obtained`, words or numbers.
            For variance explained, `adjusted_r2` is used, because with few seeds chance explains
            more. Pictures are not counted.

    Example:
        >>> frame = pd.DataFrame({"published": ["falls", "rises"], "obtained": ["falls", "falls"]})
        >>> str(agreement(frame))
        '1 of 2 rows'
        >>> frame = pd.DataFrame({"published": [0.8, 0.6, 0.5], "obtained": [0.9, 0.5, 0.6]})
        >>> str(agreement(frame))
        '2 of 3 pairs'
    """
    column = "adjusted_r2" if "adjusted_r2" in frame else "obtained"
    rows = frame[frame["published"].ne("shown")].dropna(subset=["published", column])
    if not _numbers(rows[column]):
        return Agreement(int((rows["published"] == rows[column]).sum()), len(rows), "rows")
    level = rows["published"] if _numbers(rows["published"]) else rows["published"].map(LEVELS)
    rows = rows.assign(level=level)
    groups = _compared_within(rows)
    parts = [part for _, part in rows.groupby(groups)] if groups else [rows]
    found = [analysis.order(part["level"].tolist(), part[column].tolist()) for part in parts]
    return Agreement(sum(o.agreeing for o in found), sum(o.pairs for o in found), "pairs")


def _compared_within(rows: pd.DataFrame) -> list[str]:
    """Return the columns within whose groups numbers are compared."""
    if "other" in rows:  # pairs of metrics on each data set, or pairs of data sets
        return ["data"] if "metric" in rows else []
    return [name for name in ("grouping", "metric") if name in rows][:1]


def _numbers(values: "pd.Series") -> bool:
    return bool(pd.api.types.is_numeric_dtype(values))
