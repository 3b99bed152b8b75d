"""Figure 7: the exponents that are learned."""

from pathlib import Path

import numpy as np
import pandas as pd

from unweave.papers.isa_vae.studies import LEARNED
from unweave.papers.recipe import Recipe, RecipeError
from unweave.papers.verdicts import how_many

__all__ = ["FIGURE_7", "sorted_exponents"]

MODES = {"p_1": 1.95, "p_2": 1.98, "p_3": 2.17}
ROOT, START, LEFT = 2.1, 2.0, 0.01
"""p₀, where the others begin, and how far from there they have left."""


def published() -> pd.DataFrame:
    """The most frequent value of each exponent, sorted within a model; p_0 is fixed at 2.1."""
    return pd.DataFrame(MODES.items(), columns=["exponent", "published"])


def sorted_exponents(table: pd.DataFrame) -> np.ndarray:
    """The exponents of the three subspaces of every model that learned them, `[models, 3]`."""
    missing = [name for name in MODES if name not in table]
    if missing:
        raise RecipeError(
            f"the table has no column {missing[0]!r}; train isa_vae with learned exponents and "
            "ten latents"
        )
    learned = table[list(MODES)].dropna()
    if learned.empty:
        raise RecipeError("no model of the table has learned exponents; run the study to its end")
    return np.sort(learned.to_numpy(float), axis=1)


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """The peak of a smooth density of each exponent over models, and their spread."""
    values = sorted_exponents(table)
    return published().assign(
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


def verdict(frame: pd.DataFrame) -> list[str]:
    """Whether exponents leave their start, and where they go."""
    left = how_many(frame["left_start"] > 0.5, "exponent")
    modes, printed = (
        ", ".join(f"{value:.2f}" for value in frame[name]) for name in ("obtained", "published")
    )
    below = "both below" if (frame["obtained"][:2] < ROOT).all() else "not both below"
    above = "above" if frame["obtained"].iloc[-1] > ROOT else "not above"
    return [
        f"In most models {left} moved by more than {LEFT} from {START:g}, over "
        f"{int(frame['models'].iloc[0])} models.",
        f"Their modes are {modes}; published are {printed}. The first two are {below} "
        f"p₀ = {ROOT:g} (published: below), the last is {above} it (published: above).",
        "The paper learned them on 3D faces, which may not be passed on.",
    ]


def plot(table: pd.DataFrame, path: Path) -> None:
    """A histogram of each exponent."""
    from unweave.plots.exponents import histogram

    histogram({"4,2x3": sorted_exponents(table)}, [ROOT], [START]).save(path)


FIGURE_7 = Recipe(
    name="isa-vae/figure-7",
    title="Histogram of learned exponents; other data for 3D faces",
    where="Figure 7",
    claim="Exponents leave their start at 2.0 and do not all become equal to p_0 = 2.1.",
    published=published,
    studies=LEARNED,
    obtain=obtain,
    verdict=verdict,
    plot=plot,
)
