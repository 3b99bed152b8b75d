"""Figures 5 and 6: do disentangled codes help to learn, and from fewer labels?"""

from pathlib import Path

import pandas as pd

from unweave.papers.common_assumptions.studies import STUDIES
from unweave.papers.common_assumptions.tables import METRICS, on, stands_in
from unweave.papers.recipe import Recipe
from unweave.papers.verdicts import how_many, worded

__all__ = ["DOWNSTREAM_AGREEMENT", "DOWNSTREAM_EFFICIENCY"]

DATA = "dsprites"
PREDICTORS = ("logistic", "trees")
ROWS = (10, 100, 1_000, 10_000)
METRIC, EFFICIENCY = "factor_vae", "downstream.trees_efficiency"
RELIABLE = 0.5
"""Higher scores would reliably give a higher efficiency at a rank correlation of this size."""


def published_agreement() -> pd.DataFrame:
    """Each metric with each accuracy."""
    return pd.DataFrame(
        [
            {"data": DATA, "metric": metric, "predictor": predictor, "rows": rows}
            for metric in METRICS
            for predictor in PREDICTORS
            for rows in ROWS
        ]
    ).assign(published="positive")


def obtain_agreement(table: pd.DataFrame) -> pd.DataFrame:
    """The sign of each rank correlation."""
    from unweave import analysis

    found = analysis.downstream_agreement(on(table, DATA), metrics=METRICS)
    found = found[found["measure"] == "accuracy"]
    both = published_agreement().drop(columns="data").merge(found)
    both["obtained"] = worded(both["spearman"], 1e-9, "positive", "not positive")
    keys = ["data", "metric", "predictor", "rows", "published", "obtained"]
    return both[[*keys, "spearman", "models"]]


def verdict_agreement(frame: pd.DataFrame) -> list[str]:
    """How many correlations are positive, by metric."""
    sentences = stands_in(frame["data"], DATA)
    for metric, rows in frame.dropna(subset="obtained").groupby("metric", sort=False):
        many = how_many(rows["obtained"] == "positive", "accuracy", "accuracies")
        mean = rows["spearman"].mean()
        sentences.append(
            f"{metric} rises with {many} (published: with all; rank correlation {mean:.2f} on "
            "average)."
        )
    return sentences


def plot_agreement(table: pd.DataFrame, path: Path) -> object:
    """A panel of rank correlations, accuracies and efficiencies."""
    from unweave import analysis
    from unweave.plots import study_plots

    found = analysis.downstream_agreement(on(table, DATA), metrics=METRICS)
    return study_plots.downstream_agreement(found, path)


def published_efficiency() -> pd.DataFrame:
    """The FactorVAE score with the statistical efficiency of boosted trees."""
    return pd.DataFrame(
        [{"data": DATA, "metric": METRIC, "task": EFFICIENCY, "published": "not reliable"}]
    )


def obtain_efficiency(table: pd.DataFrame) -> pd.DataFrame:
    """Their rank correlation, and whether it is reliable."""
    from unweave import analysis

    found = analysis.downstream_agreement(on(table, DATA), [EFFICIENCY], [METRIC])
    found["obtained"] = worded(found["spearman"], RELIABLE, "reliable", "not reliable")
    both = published_efficiency().drop(columns="data").merge(found)
    keys = ["data", "metric", "task", "published", "obtained"]
    return both[[*keys, "spearman", "models", "left_out"]]


def verdict_efficiency(frame: pd.DataFrame) -> list[str]:
    """Whether higher scores go with a higher efficiency."""
    sentences = stands_in(frame["data"], DATA)
    for row in frame.dropna(subset="obtained").itertuples():
        agrees = "as" if row.obtained == row.published else "not as"
        sentences.append(
            f"On {row.data} higher FactorVAE scores are {row.obtained} in giving a higher "
            f"efficiency (rank correlation {row.spearman:.2f}, reliable from {RELIABLE}), "
            f"{agrees} published."
        )
    return sentences


def plot_efficiency(table: pd.DataFrame, path: Path) -> object:
    """Efficiency against the FactorVAE score, a point per model."""
    from unweave.plots.plot import SMALL, TEXT, panels

    figure, axes = panels(1, 1, (4.5, 3.5))
    panel = axes[0, 0]
    for data, rows in on(table, DATA).groupby("data", sort=False):
        panel.scatter(rows[METRIC], rows[EFFICIENCY], s=8, alpha=0.6, label=data)
    panel.set_xlabel("FactorVAE score", fontsize=TEXT)
    panel.set_ylabel("accuracy from 100 rows / from 10,000 (trees)", fontsize=TEXT)
    panel.legend(fontsize=SMALL, frameon=False)
    figure.save(path)
    return figure


DOWNSTREAM_AGREEMENT = Recipe(
    name="common-assumptions/downstream-agreement",
    title="Metrics against downstream accuracy on dSprites",
    where="Figure 5",
    claim="Metrics correlate with downstream accuracy, perhaps because they also see how "
    "informative a code is.",
    published=published_agreement,
    studies=STUDIES,
    adds=("downstream",),
    obtain=obtain_agreement,
    verdict=verdict_agreement,
    plot=plot_agreement,
)
DOWNSTREAM_EFFICIENCY = Recipe(
    name="common-assumptions/downstream-efficiency",
    title="FactorVAE score against statistical efficiency on dSprites",
    where="Figure 6",
    claim="Higher disentanglement scores do not reliably lead to learning from fewer labels.",
    published=published_efficiency,
    studies=STUDIES,
    adds=("downstream",),
    obtain=obtain_efficiency,
    verdict=verdict_efficiency,
    plot=plot_efficiency,
)
