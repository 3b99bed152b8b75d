"""What the recipes of this paper ask of a study table alike."""

from collections.abc import Iterable

import pandas as pd

__all__ = ["METRICS", "on", "stands_in"]

METRICS = ("beta_vae", "factor_vae", "mig", "dci", "modularity", "sap")
"""The paper's six metrics, by their columns."""


def on(table: pd.DataFrame, data: str) -> pd.DataFrame:
    """The rows of the data set that a figure is about; all rows where the study lacks it."""
    chosen = table[table["data"] == data]
    return table if chosen.empty else chosen


def stands_in(obtained: Iterable[str], data: str) -> list[str]:
    """A sentence where other data sets stand in for that of a figure; none otherwise.

    Example:
        >>> stands_in(["dsprites"], "cars3d")
        ['This is on dsprites: the study has no cars3d, which the paper shows.']
    """
    names = list(dict.fromkeys(obtained))
    if names == [data]:
        return []
    return [f"This is on {', '.join(names)}: the study has no {data}, which the paper shows."]
