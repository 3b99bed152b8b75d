"""Figures 5 and 6: what the two codes know."""

from pathlib import Path

import pandas as pd

from unweave.papers.plots import lines

__all__ = ["STATISTICS", "plot_5", "plot_6"]

TERMS = {"m1": "M1, Y", "m2": "M2, X", "m3": "M3, X with random Z", "m4": "M4, X with random Y"}


def _shares_of_m1(rows: pd.DataFrame, column: str) -> "pd.Series[float]":
    """What of M1 is left in another term, at each β; nothing where there is one β only."""
    means = rows.groupby("beta")[[column, "m1"]].mean()
    shares = means[column] / means["m1"]
    return shares if len(shares) > 1 else shares[:0]


STATISTICS = {
    "least_share_of_m1": lambda rows, column: float(_shares_of_m1(rows, column).min()),
    "largest_share_of_m1": lambda rows, column: float(_shares_of_m1(rows, column).max()),
    "better_of_both_codes": lambda rows, _: float(rows[["c", "z"]].mean().max()),
}


def plot_5(table: pd.DataFrame, path: Path) -> None:
    """The four terms over β: how much of C is kept."""
    lines(table, "beta", [TERMS], path)


def plot_6(table: pd.DataFrame, path: Path) -> None:
    """Accuracies over β, means over factors."""
    lines(table, "beta", [{"c": "from C", "z": "from Z", "both": "from both"}], path)
