"""The two tables of variance explained."""

from pathlib import Path

import pandas as pd

from unweave.papers.common_assumptions.studies import STUDIES
from unweave.papers.common_assumptions.tables import METRICS
from unweave.papers.recipe import Recipe

__all__ = ["VARIANCE_EXPLAINED"]


def published() -> pd.DataFrame:
    """R² of every metric on every data set, by objective and by objective × strength."""
    from unweave import analysis

    return analysis.published_variance().rename(columns={"r2": "published"})


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """The same of a study; data sets that it lacks have no `obtained`."""
    found = _explained(table).rename(columns={"r2": "obtained"})
    both = published().merge(found, how="left")
    keys = ["data", "metric", "grouping", "published", "obtained"]
    return both[[*keys, "adjusted_r2", "null_r2", "cells", "models"]]


def _explained(table: pd.DataFrame) -> pd.DataFrame:
    from unweave import analysis

    return analysis.variance_explained(table, METRICS)


def verdict(frame: pd.DataFrame) -> list[str]:
    """Whether cells are ordered as published, and how much is left to the seed."""
    from unweave import analysis

    found = frame.dropna(subset="obtained").rename(columns={"obtained": "r2"})
    if found.empty:
        return ["The study shares no data set with the published tables."]
    sentences = [
        f"{row.claim[0].upper()}{row.claim[1:]}, by adjusted R²: {row.sentence}."
        for row in analysis.variance_orderings(found.drop(columns="published")).itertuples()
    ]
    for grouping, rows in found.groupby("grouping", sort=False):
        sentences.append(
            f"The {grouping} explains {rows['r2'].mean():.0%} on average (adjusted "
            f"{rows['adjusted_r2'].mean():.0%}, noise alone {rows['null_r2'].mean():.0%}); "
            f"published for the same cells: {rows['published'].mean():.0%}."
        )
    return sentences


def plot(table: pd.DataFrame, path: Path) -> object:
    """R² of every metric and data set, a panel per grouping."""
    from unweave.plots import study_plots

    return study_plots.variance_explained(_explained(table), path)


VARIANCE_EXPLAINED = Recipe(
    name="common-assumptions/variance-explained",
    title="Variance of scores explained by objective, and by objective × strength",
    where="Tables (a) and (b) of key result 3",
    claim="Seeds and strengths matter more than the objective: much of the variance is not "
    "explained by it.",
    published=published,
    studies=STUDIES,
    obtain=obtain,
    verdict=verdict,
    plot=plot,
)
