"""Figure 7: the exponents that are learned."""

from pathlib import Path

import numpy as np
import pandas as pd

from unweave.papers.catalog import published_table
from unweave.papers.recipe import RecipeError

__all__ = ["obtain", "plot", "sorted_exponents"]

EXPONENTS = ["p_1", "p_2", "p_3"]
ROOT, START, LEFT = 2.1, 2.0, 0.01
"""p₀, where the others begin, and how far from there they have left."""


def sorted_exponents(table: pd.DataFrame) -> np.ndarray:
    """The exponents of the three subspaces of every model that learned them, `[models, 3]`."""
    missing = [name for name in EXPONENTS if name not in table]
    if missing:
        raise RecipeError(
            f"the table has no column {missing[0]!r}; train isa_vae with learned exponents and "
            "ten latents"
        )
    learned = table[EXPONENTS].dropna()
    if learned.empty:
        raise RecipeError("no model of the table has learned exponents; run the study to its end")
    return np.sort(learned.to_numpy(float), axis=1)


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """The peak of a smooth density of each exponent over models, and their spread."""
    values = sorted_exponents(table)
    return published_table(__package__, "figure-7").assign(
        obtained=[_peak(each) for each in values.T],
        spread=values.std(0),
        models=len(values),
        left_start=[float((np.abs(each - START) > LEFT).mean()) for each in values.T],
    )


def _peak(values: np.ndarray) -> float:
    """Where a density of the values, smoothed as Silverman proposes, is largest."""
    from scipy.stats import gaussian_kde

    if len(np.unique(values)) < 2:
        return float(np.mean(values))
    places = np.linspace(values.min(), values.max(), 501)
    return float(places[gaussian_kde(values, "silverman")(places).argmax()])


def plot(table: pd.DataFrame, path: Path) -> None:
    """A histogram of each exponent."""
    from unweave.plots.exponents import histogram

    histogram({"4,2x3": sorted_exponents(table)}, [ROOT], [START]).save(path)
