"""Do hyperparameters transfer? Figure 4, right, and the three percentages of the text."""

from itertools import combinations
from pathlib import Path

import pandas as pd

from unweave.papers.common_assumptions.studies import DATA as DATA_SETS
from unweave.papers.common_assumptions.studies import STUDIES
from unweave.papers.common_assumptions.tables import METRICS
from unweave.papers.recipe import Recipe
from unweave.papers.verdicts import how_many, ordering

__all__ = ["DATA_AGREEMENT", "TRANSFER"]

STRONG = ("dsprites", "color_dsprites")
LEVELS = {"strong": 1, "less": 0}


def published_transfer() -> pd.DataFrame:
    """How often a chosen configuration beats a random one at another seed; chance is 0.5."""
    from unweave.analysis.transfer import PUBLISHED

    return pd.DataFrame(PUBLISHED.items(), columns=["kind", "published"])


def obtain_transfer(table: pd.DataFrame) -> pd.DataFrame:
    """The same of a study."""
    found = _transfer(table).drop(columns="published").rename(columns={"rate": "obtained"})
    both = published_transfer().merge(found)
    return both[["kind", "published", "obtained", "standard_error", "chance", "draws"]]


def _transfer(table: pd.DataFrame) -> pd.DataFrame:
    from unweave import analysis

    return analysis.transfer(table, METRICS)


def verdict_transfer(frame: pd.DataFrame) -> list[str]:
    """Whether the three kinds are ordered as published, and beat chance."""
    order = ordering(frame["published"], frame["obtained"])
    found = frame.dropna(subset="obtained")
    better = found["obtained"] > found["chance"]
    return [
        f"From same metric and data to both others: {order}.",
        f"A chosen configuration beats a random one more often than by chance for "
        f"{how_many(better, 'kind')}; published: for all 3.",
    ]


def plot_transfer(table: pd.DataFrame, path: Path) -> object:
    """Bars with the published numbers and chance."""
    from unweave.plots import study_plots

    return study_plots.transfer(_transfer(table), path)


def published_agreement() -> pd.DataFrame:
    """How far each pair of data sets ranks configurations alike, in the paper's words."""
    return pd.DataFrame(
        [
            {"data": a, "other": b, "published": "strong" if (a, b) == STRONG else "less"}
            for a, b in combinations(DATA_SETS, 2)
        ]
    )


def obtain_agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of configurations, the mean over metrics and the least of them."""
    found = _agreement(table)
    grouped = found.groupby(["data", "other"], sort=False)["spearman"]
    means = grouped.agg(obtained="mean", lowest="min", metrics="count").reset_index()
    both = published_agreement().merge(means, how="left")
    return both[["data", "other", "published", "obtained", "lowest", "metrics"]]


def _agreement(table: pd.DataFrame) -> pd.DataFrame:
    from unweave import analysis

    return analysis.data_agreement(table, METRICS)


def verdict_agreement(frame: pd.DataFrame) -> list[str]:
    """Whether dSprites and Color-dSprites agree more than others."""
    found = frame.dropna(subset="obtained")
    order = ordering(found["published"].map(LEVELS), found["obtained"])
    strong = found[found["published"] == "strong"]
    return [
        f"dSprites and Color-dSprites before all other pairs: {order}.",
        *(f"Their rank correlation is {value:.2f}." for value in strong["obtained"]),
    ]


def plot_agreement(table: pd.DataFrame, path: Path) -> object:
    """A panel of rank correlations between data sets per metric."""
    from unweave.plots import study_plots

    return study_plots.data_agreement(_agreement(table), path)


TRANSFER = Recipe(
    name="common-assumptions/transfer",
    title="How often a configuration chosen elsewhere beats a random one",
    where="Key result 4, in the text",
    claim="Choosing by the same metric on the same data set beats a random choice in 80.7 % of "
    "cases, on another data set in 59.3 %, by another metric on another data set in 54.9 %.",
    published=published_transfer,
    studies=STUDIES,
    obtain=obtain_transfer,
    verdict=verdict_transfer,
    plot=plot_transfer,
)
DATA_AGREEMENT = Recipe(
    name="common-assumptions/data-agreement",
    title="Rank correlation of configurations between data sets",
    where="Figure 4, right",
    claim="Only dSprites and Color-dSprites agree strongly and consistently on good "
    "configurations.",
    published=published_agreement,
    studies=STUDIES,
    obtain=obtain_agreement,
    verdict=verdict_agreement,
    plot=plot_agreement,
)
