"""What each figure and table shows, obtained from a study table beside what was published."""

from functools import partial

import pandas as pd

from unweave.papers.catalog import published_table

__all__ = [
    "EFFICIENCY",
    "METRICS",
    "SCORES",
    "choice_rules",
    "data_agreement",
    "downstream_agreement",
    "downstream_efficiency",
    "method_overlap",
    "metric_agreement",
    "on",
    "published_transfer",
    "published_variance",
    "seed_against_strength",
    "total_correlation",
    "transfer",
    "unsupervised_selection",
    "variance_explained",
]

METRICS = ("beta_vae", "factor_vae", "mig", "dci", "modularity", "sap")
"""The paper's six metrics, by their columns."""
EFFICIENCY = "downstream.trees_efficiency"
SCORES = {
    "elbo.reconstruction_error": "reconstruction",
    "elbo.kl": "KL",
    "elbo": "ELBO",
    "gaussian_total_correlation": "total correlation",
}
"""Scores that need no labels."""
APART = 0.9
"""Two methods count as apart where a random model of one beats the other's this often or more."""
USABLE = 0.5
"""A score could choose models if on every data set its rank correlation with a metric had the same
sign and at least this size."""
RELIABLE = 0.5
"""Higher scores would reliably give a higher efficiency at a rank correlation of this size."""
DOMINATES = "beats every other method on every data set by every metric"
ONE_STRENGTH = "one strength is best on every data set by every metric"
_published = partial(published_table, __package__)


def on(table: pd.DataFrame, data: str) -> pd.DataFrame:
    """The rows of the data set that a figure is about; all rows where the study lacks it."""
    chosen = table[table["data"] == data]
    return table if chosen.empty else chosen


def _worded(numbers: "pd.Series[float]", least: float, yes: str, no: str) -> "pd.Series[str]":
    """A word for each number: one from `least` on, another below, none where it is missing."""
    return (numbers >= least).map({True: yes, False: no}).where(numbers.notna())


def total_correlation(table: pd.DataFrame) -> pd.DataFrame:
    """Which way total correlation goes with strength, over all latents and over active ones."""
    from unweave import analysis

    trend = analysis.total_correlation_trend(on(table, "color_dsprites"))
    keys = ["data", "method", "codes"]
    every = trend[trend["latents"] == "all"].rename(columns={"direction": "obtained"})
    active = trend[trend["latents"] == "active"].rename(columns={"direction": "over_active"})
    said = _published("total-correlation").drop(columns="data")
    found = said.merge(every.drop(columns="published")).merge(
        active[[*keys, "over_active"]], how="left"
    )
    found["obtained"] = found["obtained"].where(found["spearman"].notna())
    return found[[*keys, "published", "obtained", "spearman", "over_active", "models"]]


def metric_agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Rank correlations of each pair of metrics over the models of a study."""
    from unweave import analysis

    found = analysis.metric_agreement(on(table, "noisy_dsprites"), METRICS)
    found = found.rename(columns={"spearman": "obtained"})
    both = _published("metric-agreement").drop(columns="data").merge(found)
    return both[["data", "metric", "other", "published", "obtained", "models", "left_out"]]


def method_overlap(table: pd.DataFrame) -> pd.DataFrame:
    """How often a random model of one method beats one of the other."""
    from unweave import analysis

    wins = analysis.method_wins(on(table, "cars3d"), ["factor_vae"])
    both = _published("method-overlap").drop(columns="data").merge(wins)
    # Of a method's models that win rarely, the other's win often.
    wins = both["win_rate"].where(both["win_rate"] >= 0.5, 1 - both["win_rate"])
    both["obtained"] = _worded(wins, APART, "apart", "overlap")
    keys = ["data", "metric", "method", "other", "published", "obtained", "win_rate"]
    return both[[*keys, "left_out"]]


def seed_against_strength(table: pd.DataFrame) -> pd.DataFrame:
    """The best seed at the worst strength against the worst seed at the best."""
    from unweave import analysis

    found = analysis.seed_against_strength(on(table, "cars3d"), ["factor_vae"])
    both = _published("seed-against-strength").drop(columns="data").merge(found)
    beats = both["best_seed_at_worst"] > both["worst_seed_at_best"]
    both["obtained"] = beats.map({True: "seed beats strength", False: "strength beats seed"})
    numbers = ["best", "worst", "best_seed_at_worst", "worst_seed_at_best", "win_rate"]
    return both[["data", "method", "metric", "published", "obtained", *numbers]]


def published_variance() -> pd.DataFrame:
    """R² of every metric on every data set, by objective and by objective × strength."""
    from unweave import analysis

    return analysis.published_variance().rename(columns={"r2": "published"})


def variance_explained(table: pd.DataFrame) -> pd.DataFrame:
    """The same of a study; data sets that it lacks have no `obtained`."""
    from unweave import analysis

    found = analysis.variance_explained(table, METRICS).rename(columns={"r2": "obtained"})
    both = published_variance().merge(found, how="left")
    keys = ["data", "metric", "grouping", "published", "obtained"]
    return both[[*keys, "adjusted_r2", "null_r2", "cells", "models"]]


def choice_rules(table: pd.DataFrame) -> pd.DataFrame:
    """Whether a method or a strength is best everywhere, and in what share of places."""
    found = pd.concat([_dominance(table), _strengths(table)])
    found["obtained"] = (found["share"] == 1).map({True: "yes", False: "no"})
    both = _published("choice-rules").merge(found)
    return both[["rule", "method", "published", "obtained", "share"]]


def _dominance(table: pd.DataFrame) -> pd.DataFrame:
    """In what share of places each method wins more than half of its draws against all others."""
    from unweave import analysis

    wins = analysis.method_wins(table, METRICS).dropna(subset="win_rate")
    worst = wins.groupby(["method", "data", "metric"])["win_rate"].min()
    share = (worst > 0.5).groupby("method").mean().rename("share").reset_index()
    return share.assign(rule=DOMINATES)


def _strengths(table: pd.DataFrame) -> pd.DataFrame:
    """In what share of places each method's most often best strength is best."""
    from unweave import analysis

    best = analysis.seed_against_strength(table, METRICS)
    share = best.groupby("method")["best"].agg(
        lambda found: found.value_counts().max() / len(found)
    )
    return share.rename("share").reset_index().assign(rule=ONE_STRENGTH)


def unsupervised_selection(table: pd.DataFrame) -> pd.DataFrame:
    """The least and the largest rank correlation over data sets, and whether they are of use."""
    from unweave import analysis

    found = analysis.unsupervised_selection(table, list(SCORES), METRICS)
    found["score"] = found["score"].map(SCORES)
    grouped = found.groupby(["score", "metric"])["spearman"]
    ranges = grouped.agg(lowest="min", highest="max", data_sets="count").reset_index()
    ranges["obtained"] = ranges["lowest"].notna().map({True: "no pattern", False: None})
    ranges.loc[ranges["lowest"] >= USABLE, "obtained"] = "rise together"
    ranges.loc[ranges["highest"] <= -USABLE, "obtained"] = "one rises, the other falls"
    columns = ["score", "metric", "published", "obtained", "lowest", "highest", "data_sets"]
    return _published("unsupervised-selection").merge(ranges)[columns]


def data_agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of configurations, the mean over metrics and the least of them."""
    from unweave import analysis

    found = analysis.data_agreement(table, METRICS)
    grouped = found.groupby(["data", "other"], sort=False)["spearman"]
    means = grouped.agg(obtained="mean", lowest="min", metrics="count").reset_index()
    both = _published("data-agreement").merge(means, how="left")
    return both[["data", "other", "published", "obtained", "lowest", "metrics"]]


def published_transfer() -> pd.DataFrame:
    """How often a chosen configuration beats a random one at another seed; chance is 0.5."""
    from unweave.analysis.transfer import PUBLISHED

    return pd.DataFrame(PUBLISHED.items(), columns=["kind", "published"])


def transfer(table: pd.DataFrame) -> pd.DataFrame:
    """The same of a study."""
    from unweave import analysis

    found = analysis.transfer(table, METRICS).drop(columns="published")
    both = published_transfer().merge(found.rename(columns={"rate": "obtained"}))
    return both[["kind", "published", "obtained", "standard_error", "chance", "draws"]]


def downstream_agreement(table: pd.DataFrame) -> pd.DataFrame:
    """The sign of the rank correlation of each metric with each accuracy."""
    from unweave import analysis

    found = analysis.downstream_agreement(on(table, "dsprites"), metrics=METRICS)
    found = found[found["measure"] == "accuracy"]
    both = _published("downstream-agreement").drop(columns="data").merge(found)
    both["obtained"] = _worded(both["spearman"], 1e-9, "positive", "not positive")
    keys = ["data", "metric", "predictor", "rows", "published", "obtained"]
    return both[[*keys, "spearman", "models"]]


def downstream_efficiency(table: pd.DataFrame) -> pd.DataFrame:
    """The rank correlation of FactorVAE score and efficiency, and whether it is reliable."""
    from unweave import analysis

    found = analysis.downstream_agreement(on(table, "dsprites"), [EFFICIENCY], ["factor_vae"])
    found["obtained"] = _worded(found["spearman"], RELIABLE, "reliable", "not reliable")
    both = _published("downstream-efficiency").drop(columns="data").merge(found)
    keys = ["data", "metric", "task", "published", "obtained"]
    return both[[*keys, "spearman", "models", "left_out"]]
