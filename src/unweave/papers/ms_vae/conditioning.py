"""Figures 5 and 6: what the two codes know."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.papers.comparisons import compared, comparison
from unweave.papers.frames import claims
from unweave.papers.ms_vae.plots import lines
from unweave.papers.ms_vae.stages import measured, predicted, verdict
from unweave.papers.ms_vae.studies import STUDIES
from unweave.papers.recipe import Recipe

__all__ = ["FIGURE_5", "FIGURE_6"]

X_ABOVE_Y = "M2 > M1 (codes of X against codes of Y)"
Y_ABOVE_RANDOM_Z = "M1 > M3 (codes of Y against codes of X with random Z)"
RANDOM_Z_ABOVE_RANDOM_Y = "M3 ≫ M4 (random Z against random Y)"
FOLLOWS = "M3 follows M1 over β without dropping significantly"
five = partial(claims, X_ABOVE_Y, Y_ABOVE_RANDOM_Z, RANDOM_Z_ABOVE_RANDOM_Y, FOLLOWS)
BOTH_BEST = "accuracy from C and Z together is the highest for all five properties"
C_FALLS = "as β grows the accuracy from C falls"
Z_RISES = "as β grows the accuracy from Z rises"
six = partial(claims, BOTH_BEST, C_FALLS, Z_RISES)
MUCH = 0.5
"""M4 is far below M3 where it is less than half of it."""
DROP = 0.2
"""M3 drops significantly where the best β keeps this much more of M1 than the worst."""
TERMS = {"m1": "M1, Y", "m2": "M2, X", "m3": "M3, X with random Z", "m4": "M4, X with random Y"}


def obtain_5(table: pd.DataFrame) -> pd.DataFrame:
    """Each pair of terms at each β, and how far M3 is from M1 over β."""
    rows = [row for data, part in table.groupby("data", sort=False) for row in _terms(data, part)]
    return compared(five(), rows)


def _terms(data: Any, table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    means = table.groupby("beta")[list(TERMS)].mean()
    for beta, row in means.iterrows():
        of = f"β = {beta:g}"
        for claim, one, other, factor in (
            (X_ABOVE_Y, "m2", "m1", 1.0),
            (Y_ABOVE_RANDOM_Z, "m1", "m3", 1.0),
            (RANDOM_Z_ABOVE_RANDOM_Y, "m3", "m4", MUCH),
        ):
            high, low = float(row[one]), float(row[other])
            by = f"{one.upper()} against {other.upper()}"
            yield comparison(claim, of, by, high, low, factor * high > low, data=data)
    shares = means["m3"] / means["m1"]
    if len(shares) > 1:
        lowest, highest = float(shares.min()), float(shares.max())
        holds = lowest > highest - DROP
        of = f"β = {shares.idxmin():g} against β = {shares.idxmax():g}"
        yield comparison(FOLLOWS, of, "M3 / M1", lowest, highest, holds, data=data)


def obtain_6(table: pd.DataFrame) -> pd.DataFrame:
    """Each factor at each β, and how accuracies change from the smallest β to the largest."""
    rows = []
    for data, part in table.groupby("data", sort=False):
        for (factor, beta), of in part.groupby(["factor", "beta"], sort=False):
            both, best = float(of["both"].mean()), float(of[["c", "z"]].mean().max())
            said = f"{factor}, β = {beta:g}"
            holds = both >= best
            rows.append(comparison(BOTH_BEST, said, "accuracy", both, best, holds, data=data))
        for claim, code, sign in ((C_FALLS, "c", -1), (Z_RISES, "z", 1)):
            by_beta = part.groupby("beta")[code].mean()
            if len(by_beta) > 1:
                first, last = float(by_beta.iloc[0]), float(by_beta.iloc[-1])
                of = f"β = {by_beta.index[-1]:g} against β = {by_beta.index[0]:g}"
                by, holds = f"accuracy from {code.upper()}", sign * (last - first) > 0
                rows.append(comparison(claim, of, by, last, first, holds, data=data))
    return compared(six(), rows)


def plot_5(table: pd.DataFrame, path: Path) -> None:
    """The four terms over β: how much of C is kept."""
    lines(table, "beta", [TERMS], path)


def plot_6(table: pd.DataFrame, path: Path) -> None:
    """Accuracies over β, means over factors."""
    lines(table, "beta", [{"c": "from C", "z": "from Z", "both": "from both"}], path)


FIGURE_5 = Recipe(
    name="ms-vae/figure-5",
    title="Mutual information M1 to M4 between codes of images and of reconstructions",
    where="Figure 5",
    claim="The second stage keeps to the disentangled code: M2 > M1 > M3 ≫ M4.",
    published=five,
    studies=STUDIES,
    extend=measured,
    obtain=obtain_5,
    verdict=verdict,
    plot=plot_5,
)
FIGURE_6 = Recipe(
    name="ms-vae/figure-6",
    title="Properties of images predicted from C, Z and both",
    where="Figure 6",
    claim="The two codes complement each other.",
    published=six,
    studies=STUDIES,
    extend=predicted,
    obtain=obtain_6,
    verdict=verdict,
    plot=plot_6,
)
