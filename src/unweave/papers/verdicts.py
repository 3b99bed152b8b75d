"""Verdicts in words."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

__all__ = ["how_many", "ordering", "worded"]


def how_many(agrees: Sequence[Any], what: str, plural: str = "") -> str:
    """How many of some things do as published.

    Example:
        >>> how_many([True, True], "method"), how_many([True, False], "method")
        ('all 2 methods', '1 of 2 methods')
        >>> how_many([False, False], "method")
        'none of 2 methods'
        >>> how_many([True], "method")
        'the one method that there is'
    """
    many, total = sum(map(bool, agrees)), len(agrees)
    several = plural or f"{what}s"
    if total == 0:
        return f"none, as there is no {what} to compare"
    if total == 1:
        return f"the one {what} that there is" if many else f"not the one {what} that there is"
    if many in (0, total):
        return f"{'all' if many else 'none of'} {total} {several}"
    return f"{many} of {total} {several}"


def ordering(published: "pd.Series[float]", obtained: "pd.Series[float]") -> str:
    """Whether two columns order the same rows alike, in words."""
    from unweave import analysis

    return str(analysis.order(published.tolist(), obtained.tolist()))


def worded(numbers: "pd.Series[float]", least: float, yes: str, no: str) -> "pd.Series[str]":
    """A word for each number: one from `least` on, another below, none where it is missing.

    Example:
        >>> worded(pd.Series([0.6, 0.2, float("nan")]), 0.5, "strong", "weak").fillna("–").tolist()
        ['strong', 'weak', '–']
    """
    return (numbers >= least).map({True: yes, False: no}).where(numbers.notna())
