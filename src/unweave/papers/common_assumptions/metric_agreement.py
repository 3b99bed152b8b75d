"""Figure 2: how far metrics agree."""

from itertools import combinations
from pathlib import Path

import pandas as pd

from unweave.papers.common_assumptions.studies import STUDIES
from unweave.papers.common_assumptions.tables import METRICS, on, stands_in
from unweave.papers.recipe import Recipe
from unweave.papers.verdicts import ordering

__all__ = ["METRIC_AGREEMENT"]

DATA = "noisy_dsprites"
STRONG = (("beta_vae", "factor_vae"), ("mig", "dci"))
LEVELS = {"strong": 2, "mild": 1, "less": 0}
"""What the paper calls correlations, so that they can be ordered."""


def _level(pair: tuple[str, str]) -> str:
    if pair in STRONG:
        return "strong"
    return "less" if "modularity" in pair else "mild"


def published() -> pd.DataFrame:
    """How strongly each pair of metrics is correlated, in the paper's words."""
    return pd.DataFrame(
        [
            {"data": DATA, "metric": pair[0], "other": pair[1], "published": _level(pair)}
            for pair in combinations(METRICS, 2)
        ]
    )


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """Rank correlations of each pair over the models of a study."""
    from unweave import analysis

    found = analysis.metric_agreement(on(table, DATA), METRICS)
    found = found.rename(columns={"spearman": "obtained"})
    both = published().drop(columns="data").merge(found)
    return both[["data", "metric", "other", "published", "obtained", "models", "left_out"]]


def verdict(frame: pd.DataFrame) -> list[str]:
    """Whether the strong pairs come before the mild ones, and Modularity's last."""
    sentences = stands_in(frame["data"], DATA)
    for data, rows in frame.dropna(subset="obtained").groupby("data", sort=False):
        levels = rows["published"].map(LEVELS)
        top = rows.nlargest(2, "obtained")
        pairs = ", ".join(f"{row.metric} and {row.other}" for row in top.itertuples())
        sentences.append(
            f"Strong before mild before Modularity's on {data}: "
            f"{ordering(levels, rows['obtained'])}."
        )
        sentences.append(f"The strongest pairs on {data} are {pairs}.")
    return sentences


def plot(table: pd.DataFrame, path: Path) -> object:
    """A panel of rank correlations per data set."""
    from unweave import analysis
    from unweave.plots import study_plots

    return study_plots.metric_agreement(analysis.metric_agreement(on(table, DATA), METRICS), path)


METRIC_AGREEMENT = Recipe(
    name="common-assumptions/metric-agreement",
    title="Rank correlation of the six metrics",
    where="Figure 2",
    claim="All metrics except Modularity are mildly correlated, and the pairs BetaVAE and "
    "FactorVAE, and MIG and DCI, strongly.",
    published=published,
    studies=STUDIES,
    obtain=obtain,
    verdict=verdict,
    plot=plot,
)
