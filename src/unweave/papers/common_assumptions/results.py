"""Results of each figure and table, computed from a study table, and their plots."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd

from unweave import analysis
from unweave.analysis.transfer import PUBLISHED
from unweave.papers.plots import labelled
from unweave.papers.recipe import published_table
from unweave.plots import study_plots

METRICS = ("beta_vae", "factor_vae", "mig", "dci", "modularity", "sap")
"""Columns of the six metrics of the paper."""
EFFICIENCY = "downstream.trees_efficiency"
SCORES = {
    "elbo.reconstruction_error": "reconstruction",
    "elbo.kl": "KL",
    "elbo": "ELBO",
    "gaussian_total_correlation": "total correlation",
}
"""Columns of label-free scores and their names in the paper."""
APART = 0.9
"""Two methods count as separated if random models of one beat those of the other this often."""
USABLE = 0.5
"""Smallest absolute rank correlation with a metric, of equal sign on all data sets, at which a
label-free score is considered usable for model selection."""
RELIABLE = 0.5
"""Smallest rank correlation at which higher scores reliably mean higher statistical efficiency."""
DOMINATES = "beats every other method on every data set by every metric"
ONE_STRENGTH = "one strength is best on every data set by every metric"
_published = partial(published_table, __package__)


def on(table: pd.DataFrame, data: str) -> pd.DataFrame:
    """Return the rows of a data set, or all rows if the study does not include it."""
    chosen = table[table["data"] == data]
    return table if chosen.empty else chosen


ANALYSES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "total_correlation": lambda table: analysis.total_correlation(on(table, "color_dsprites")),
    "metric_agreement": lambda table: analysis.metric_agreement(
        on(table, "noisy_dsprites"), METRICS
    ),
    "variance_explained": lambda table: analysis.variance_explained(table, METRICS),
    "unsupervised_selection": lambda table: analysis.unsupervised_selection(
        table, list(SCORES), METRICS
    ),
    "data_agreement": lambda table: analysis.data_agreement(table, METRICS),
    "transfer": lambda table: analysis.transfer(table, METRICS),
    "downstream_agreement": lambda table: analysis.downstream_agreement(
        on(table, "dsprites"), metrics=METRICS
    ),
}
"""Analyses of a study table with the data sets and metrics of the paper, by name."""


def plotted(name: str, table: pd.DataFrame, path: Path) -> None:
    """Plot an analysis from `ANALYSES` with the function of `study_plots` of the same name."""
    getattr(study_plots, name)(ANALYSES[name](table), path)


def _worded(numbers: "pd.Series[float]", least: float, yes: str, no: str) -> "pd.Series[str]":
    """Map numbers to `yes` (from `least` upwards), `no` (below) or missing (if missing)."""
    return (numbers >= least).map({True: yes, False: no}).where(numbers.notna())


def total_correlation(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the trend of total correlation with strength, over all and over active latents."""
    trend = analysis.total_correlation_trend(on(table, "color_dsprites"))
    keys = ["data", "method", "codes"]
    every = trend[trend["latents"] == "all"].rename(columns={"direction": "obtained"})
    active = trend[trend["latents"] == "active"].rename(columns={"direction": "over_active"})
    printed = _published("total-correlation").drop(columns="data")
    found = printed.merge(every.drop(columns="published")).merge(
        active[[*keys, "over_active"]], how="left"
    )
    found["obtained"] = found["obtained"].where(found["spearman"].notna())
    return found[[*keys, "published", "obtained", "spearman", "over_active", "models"]]


def metric_agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the rank correlation of each pair of metrics over the models of a study."""
    found = ANALYSES["metric_agreement"](table)
    found = found.rename(columns={"spearman": "obtained"})
    both = _published("metric-agreement").drop(columns="data").merge(found)
    return both[["data", "metric", "other", "published", "obtained", "models", "left_out"]]


def method_overlap(table: pd.DataFrame) -> pd.DataFrame:
    """Compute how often a random model of one method beats one of another."""
    wins = analysis.method_wins(on(table, "cars3d"), ["factor_vae"])
    both = _published("method-overlap").drop(columns="data").merge(wins)
    # A low win rate of one method is a high win rate of the other.
    wins = both["win_rate"].where(both["win_rate"] >= 0.5, 1 - both["win_rate"])
    both["obtained"] = _worded(wins, APART, "apart", "overlap")
    keys = ["data", "metric", "method", "other", "published", "obtained", "win_rate"]
    return both[[*keys, "left_out"]]


def plot_scores(table: pd.DataFrame, path: Path) -> None:
    """Draw violin plots of the FactorVAE score by method and by strength."""
    study_plots.score_distributions(on(table, "cars3d"), "factor_vae", path)


def seed_against_strength(table: pd.DataFrame) -> pd.DataFrame:
    """Compare the best seed at the worst strength with the worst seed at the best strength."""
    found = analysis.seed_against_strength(on(table, "cars3d"), ["factor_vae"])
    both = _published("seed-against-strength").drop(columns="data").merge(found)
    beats = both["best_seed_at_worst"] > both["worst_seed_at_best"]
    both["obtained"] = beats.map({True: "seed beats strength", False: "strength beats seed"})
    numbers = ["best", "worst", "best_seed_at_worst", "worst_seed_at_best", "win_rate"]
    return both[["data", "method", "metric", "published", "obtained", *numbers]]


def published_variance() -> pd.DataFrame:
    """Return the published R² of each metric and data set, for both groupings of models."""
    return analysis.published_variance().rename(columns={"r2": "published"})


def variance_explained(table: pd.DataFrame) -> pd.DataFrame:
    """Compute R² for a study; `obtained` is missing for data sets it does not include."""
    found = ANALYSES["variance_explained"](table).rename(columns={"r2": "obtained"})
    both = published_variance().merge(found, how="left")
    keys = ["data", "metric", "grouping", "published", "obtained"]
    return both[[*keys, "adjusted_r2", "null_r2", "cells", "models"]]


def choice_rules(table: pd.DataFrame) -> pd.DataFrame:
    """Test whether one method or strength is best for all data sets and metrics.

    `share` is the fraction of pairs of a data set and a metric for which it is best.
    """
    found = pd.concat([_dominance(table), _strengths(table)])
    found["obtained"] = (found["share"] == 1).map({True: "yes", False: "no"})
    both = _published("choice-rules").merge(found)
    return both[["rule", "method", "published", "obtained", "share"]]


def _dominance(table: pd.DataFrame) -> pd.DataFrame:
    """Fraction of data sets and metrics on which a method wins mostly against every other."""
    wins = analysis.method_wins(table, METRICS).dropna(subset="win_rate")
    worst = wins.groupby(["method", "data", "metric"])["win_rate"].min()
    share = (worst > 0.5).groupby("method").mean().rename("share").reset_index()
    return share.assign(rule=DOMINATES)


def _strengths(table: pd.DataFrame) -> pd.DataFrame:
    """Fraction of data sets and metrics on which the most frequent best strength is best."""
    best = analysis.seed_against_strength(table, METRICS)
    share = best.groupby("method")["best"].agg(
        lambda found: found.value_counts().max() / len(found)
    )
    return share.rename("share").reset_index().assign(rule=ONE_STRENGTH)


def unsupervised_selection(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the range of rank correlations over data sets, and whether a score is usable."""
    found = ANALYSES["unsupervised_selection"](table)
    found["score"] = found["score"].map(SCORES)
    grouped = found.groupby(["score", "metric"])["spearman"]
    ranges = grouped.agg(lowest="min", highest="max", data_sets="count").reset_index()
    ranges["obtained"] = ranges["lowest"].notna().map({True: "no pattern", False: None})
    ranges.loc[ranges["lowest"] >= USABLE, "obtained"] = "rise together"
    ranges.loc[ranges["highest"] <= -USABLE, "obtained"] = "one rises, the other falls"
    columns = ["score", "metric", "published", "obtained", "lowest", "highest", "data_sets"]
    return _published("unsupervised-selection").merge(ranges)[columns]


def data_agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the mean and lowest rank correlation, over metrics, of configurations."""
    found = ANALYSES["data_agreement"](table)
    grouped = found.groupby(["data", "other"], sort=False)["spearman"]
    means = grouped.agg(obtained="mean", lowest="min", metrics="count").reset_index()
    both = _published("data-agreement").merge(means, how="left")
    return both[["data", "other", "published", "obtained", "lowest", "metrics"]]


def published_transfer() -> pd.DataFrame:
    """Return the published rates at which a chosen configuration beats a random one.

    The two are compared at another seed; chance level is 0.5.
    """
    return pd.DataFrame(PUBLISHED.items(), columns=["kind", "published"])


def transfer(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the same rates for a study."""
    found = ANALYSES["transfer"](table).drop(columns="published")
    both = published_transfer().merge(found.rename(columns={"rate": "obtained"}))
    return both[["kind", "published", "obtained", "standard_error", "chance", "draws"]]


def downstream_agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the sign of the rank correlation of each metric with each accuracy."""
    found = ANALYSES["downstream_agreement"](table)
    found = found[found["measure"] == "accuracy"]
    both = _published("downstream-agreement").drop(columns="data").merge(found)
    both["obtained"] = _worded(both["spearman"], 1e-9, "positive", "not positive")
    keys = ["data", "metric", "predictor", "rows", "published", "obtained"]
    return both[[*keys, "spearman", "models"]]


def downstream_efficiency(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the rank correlation of FactorVAE score and efficiency, and if it is reliable."""
    found = analysis.downstream_agreement(on(table, "dsprites"), [EFFICIENCY], ["factor_vae"])
    found["obtained"] = _worded(found["spearman"], RELIABLE, "reliable", "not reliable")
    both = _published("downstream-efficiency").drop(columns="data").merge(found)
    keys = ["data", "metric", "task", "published", "obtained"]
    return both[[*keys, "spearman", "models", "left_out"]]


def plot_downstream_efficiency(table: pd.DataFrame, path: Path) -> None:
    """Plot efficiency against the FactorVAE score, with a point per model."""
    from unweave.plots.plot import SMALL, panels

    figure, axes = panels(1, 1, (4.5, 3.5))
    ratio = "accuracy from 100 rows / from 10,000 (trees)"
    panel = labelled(axes[0, 0], x="FactorVAE score", y=ratio)
    for data, rows in on(table, "dsprites").groupby("data", sort=False):
        panel.scatter(rows["factor_vae"], rows[EFFICIENCY], s=8, alpha=0.6, label=data)
    panel.legend(fontsize=SMALL, frameon=False)
    figure.save(path)
