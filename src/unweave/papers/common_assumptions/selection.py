"""Figure 4, centre: can models be chosen by scores that need no labels?"""

from pathlib import Path

import pandas as pd

from unweave.papers.common_assumptions.studies import STUDIES
from unweave.papers.common_assumptions.tables import METRICS
from unweave.papers.recipe import Recipe
from unweave.papers.verdicts import how_many

__all__ = ["UNSUPERVISED_SELECTION"]

SCORES = {
    "elbo.reconstruction_error": "reconstruction",
    "elbo.kl": "KL",
    "elbo": "ELBO",
    "gaussian_total_correlation": "total correlation",
}
NO_PATTERN = "no pattern"
USABLE = 0.5
"""A score could choose models if on every data set its rank correlation with a metric had the same
sign and at least this size."""


def published() -> pd.DataFrame:
    """Each score that needs no labels with each metric."""
    return pd.DataFrame(
        [
            {"score": score, "metric": metric, "published": NO_PATTERN}
            for score in SCORES.values()
            for metric in METRICS
        ]
    )


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """The least and the largest rank correlation over data sets, and whether they are of use."""
    found = _correlations(table)
    found["score"] = found["score"].map(SCORES)
    grouped = found.groupby(["score", "metric"])["spearman"]
    ranges = grouped.agg(lowest="min", highest="max", data_sets="count").reset_index()
    ranges["obtained"] = ranges["lowest"].notna().map({True: NO_PATTERN, False: None})
    ranges.loc[ranges["lowest"] >= USABLE, "obtained"] = "rise together"
    ranges.loc[ranges["highest"] <= -USABLE, "obtained"] = "one rises, the other falls"
    columns = ["score", "metric", "published", "obtained", "lowest", "highest", "data_sets"]
    return published().merge(ranges)[columns]


def _correlations(table: pd.DataFrame) -> pd.DataFrame:
    from unweave import analysis

    return analysis.unsupervised_selection(table, list(SCORES), METRICS)


def verdict(frame: pd.DataFrame) -> list[str]:
    """For how many pairs there is no pattern, and for which there is one."""
    frame = frame.dropna(subset="obtained")
    found = frame[frame["obtained"] != NO_PATTERN]
    sentences = [
        f"No usable pattern (rank correlations of one sign and at least {USABLE} on every data "
        f"set), as published, for {how_many(frame['obtained'] == NO_PATTERN, 'pair')} of a score "
        "and a metric."
    ]
    if len(found):
        pairs = ", ".join(f"{row.score} with {row.metric}" for row in found.itertuples())
        sentences.append(f"There is one for {pairs}.")
    return sentences


def plot(table: pd.DataFrame, path: Path) -> object:
    """A panel of rank correlations per data set."""
    from unweave.plots import study_plots

    return study_plots.unsupervised_selection(_correlations(table), path)


UNSUPERVISED_SELECTION = Recipe(
    name="common-assumptions/unsupervised-selection",
    title="Scores that need no labels against metrics",
    where="Figure 4, centre",
    claim="No clear pattern lets reconstruction, KL, ELBO or total correlation choose "
    "disentangled models.",
    published=published,
    studies=STUDIES,
    obtain=obtain,
    verdict=verdict,
    plot=plot,
)
