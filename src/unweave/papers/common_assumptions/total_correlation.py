"""Figure 1: total correlation of mean and of sampled codes."""

from pathlib import Path

import pandas as pd

from unweave.papers.common_assumptions.studies import STUDIES
from unweave.papers.common_assumptions.tables import on, stands_in
from unweave.papers.grids import STRENGTHS
from unweave.papers.recipe import Recipe
from unweave.papers.verdicts import how_many

__all__ = ["TOTAL_CORRELATION"]

DATA = "color_dsprites"
DIRECTIONS = {"sampled": "falls", "mean": "rises"}
METHODS = [method for method in STRENGTHS if method != "annealed_vae"]


def published() -> pd.DataFrame:
    """Which way total correlation goes with strength, by method and codes."""
    return pd.DataFrame(
        [
            {"data": DATA, "method": method, "codes": codes, "published": direction}
            for codes, direction in DIRECTIONS.items()
            for method in METHODS
        ]
    )


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """The same of a study, over all latents as published and over active ones."""
    from unweave import analysis

    trend = analysis.total_correlation_trend(on(table, DATA))
    keys = ["data", "method", "codes"]
    every = trend[trend["latents"] == "all"].rename(columns={"direction": "obtained"})
    active = trend[trend["latents"] == "active"].rename(columns={"direction": "over_active"})
    said = published().drop(columns="data").merge(every.drop(columns="published"))
    found = said.merge(active[[*keys, "over_active"]], how="left")
    found["obtained"] = found["obtained"].where(found["spearman"].notna())
    return found[[*keys, "published", "obtained", "spearman", "over_active", "models"]]


def verdict(frame: pd.DataFrame) -> list[str]:
    """How many methods go the published way."""
    sentences = stands_in(frame["data"], DATA)
    for codes, direction in DIRECTIONS.items():
        rows = frame[frame["codes"] == codes].dropna(subset="obtained")
        said = (
            f"Total correlation of {codes} codes {direction} with strength, as published, for "
            f"{how_many(rows['obtained'] == direction, 'method')}"
        )
        active = rows["over_active"].dropna()
        if len(active):
            said += f"; over active latents for {how_many(active == direction, 'method')}"
        sentences.append(f"{said}.")
    return sentences


def plot(table: pd.DataFrame, path: Path) -> object:
    """Total correlation by strength, a panel per method."""
    from unweave import analysis
    from unweave.plots import study_plots

    return study_plots.total_correlation(analysis.total_correlation(on(table, DATA)), path)


TOTAL_CORRELATION = Recipe(
    name="common-assumptions/total-correlation",
    title="Total correlation of sampled and mean codes against strength",
    where="Figure 1",
    claim="With strength the total correlation of sampled codes falls while that of mean codes "
    "rises, with minor exceptions.",
    published=published,
    studies=STUDIES,
    obtain=obtain,
    verdict=verdict,
    plot=plot,
)
