"""Figure 3: scores by method, by strength and by seed; Figure 4, left: rules to choose by."""

from itertools import combinations
from pathlib import Path

import pandas as pd

from unweave.papers.common_assumptions.studies import STUDIES
from unweave.papers.common_assumptions.tables import METRICS, on, stands_in
from unweave.papers.recipe import Recipe
from unweave.papers.verdicts import how_many, worded

__all__ = ["CHOICE_RULES", "METHOD_OVERLAP", "SEED_AGAINST_STRENGTH"]

DATA, METHOD, METRIC = "cars3d", "factor_vae", "factor_vae"
ORDER = ("beta_vae", "factor_vae", "beta_tc_vae", "dip_vae_i", "dip_vae_ii", "annealed_vae")
"""As the figure numbers the methods."""

APART = 0.9
"""Two methods count as apart where a random model of one beats the other's this often or more."""

DOMINATES = "beats every other method on every data set by every metric"
ONE_STRENGTH = "one strength is best on every data set by every metric"


def published_overlap() -> pd.DataFrame:
    """Each pair of methods, whose scores overlap."""
    return pd.DataFrame(
        [
            {"data": DATA, "metric": METRIC, "method": a, "other": b, "published": "overlap"}
            for a, b in combinations(ORDER, 2)
        ]
    )


def obtain_overlap(table: pd.DataFrame) -> pd.DataFrame:
    """How often a random model of one method beats one of the other."""
    from unweave import analysis

    wins = analysis.method_wins(on(table, DATA), [METRIC])
    both = published_overlap().drop(columns="data").merge(wins)
    # Of a method's models that win rarely, the other's win often.
    wins = both["win_rate"].where(both["win_rate"] >= 0.5, 1 - both["win_rate"])
    both["obtained"] = worded(wins, APART, "apart", "overlap")
    keys = ["data", "metric", "method", "other", "published", "obtained", "win_rate"]
    return both[[*keys, "left_out"]]


def verdict_overlap(frame: pd.DataFrame) -> list[str]:
    """How many pairs of methods overlap."""
    found = frame.dropna(subset="obtained")
    return [
        *stands_in(frame["data"], DATA),
        "Scores overlap, as published (neither method's models win in "
        f"{APART:.0%} of draws), for {how_many(found['obtained'] == 'overlap', 'pair')}.",
    ]


def published_seed() -> pd.DataFrame:
    """Whether a good seed at a bad strength beats a bad seed at a good one."""
    keys = {"data": DATA, "method": METHOD, "metric": METRIC}
    return pd.DataFrame([{**keys, "published": "seed beats strength"}])


def obtain_seed(table: pd.DataFrame) -> pd.DataFrame:
    """The best seed at the worst strength against the worst seed at the best."""
    from unweave import analysis

    found = analysis.seed_against_strength(on(table, DATA), [METRIC])
    both = published_seed().drop(columns="data").merge(found)
    beats = both["best_seed_at_worst"] > both["worst_seed_at_best"]
    both["obtained"] = beats.map({True: "seed beats strength", False: "strength beats seed"})
    numbers = ["best", "worst", "best_seed_at_worst", "worst_seed_at_best", "win_rate"]
    return both[["data", "method", "metric", "published", "obtained", *numbers]]


def verdict_seed(frame: pd.DataFrame) -> list[str]:
    """Whether it does, with the numbers."""
    sentences = stands_in(frame["data"], DATA)
    for row in frame.itertuples():
        beats = row.obtained == row.published
        sentences.append(
            f"On {row.data} the best seed at the worst strength ({row.worst:g}) scores "
            f"{row.best_seed_at_worst:.3f}, the worst seed at the best ({row.best:g}) "
            f"{row.worst_seed_at_best:.3f}: {'' if beats else 'not '}as published."
        )
    return sentences


def plot(table: pd.DataFrame, path: Path) -> object:
    """Violins of the FactorVAE score by method and by strength."""
    from unweave.plots import study_plots

    return study_plots.score_distributions(on(table, DATA), METRIC, path)


def published_rules() -> pd.DataFrame:
    """Whether a method, or a strength of it, is always to be preferred."""
    return pd.DataFrame(
        [
            {"rule": rule, "method": method, "published": "no"}
            for rule in (DOMINATES, ONE_STRENGTH)
            for method in ORDER
        ]
    )


def obtain_rules(table: pd.DataFrame) -> pd.DataFrame:
    """The same of a study, with the share of data sets and metrics where it is so."""
    found = pd.concat([_dominance(table), _strengths(table)])
    found["obtained"] = (found["share"] == 1).map({True: "yes", False: "no"})
    return published_rules().merge(found)[["rule", "method", "published", "obtained", "share"]]


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


def verdict_rules(frame: pd.DataFrame) -> list[str]:
    """Whether no rule was found."""
    opening = {DOMINATES: "A method that", ONE_STRENGTH: "A method of which"}
    sentences = []
    for rule, rows in frame.groupby("rule", sort=False):
        held = rows[rows["obtained"] == "yes"]["method"].tolist()
        found = f"{', '.join(held)}, not as published" if held else "none, as published"
        sentences.append(f"{opening[rule]} {rule}: {found}.")
    return sentences


METHOD_OVERLAP = Recipe(
    name="common-assumptions/method-overlap",
    title="FactorVAE score of each method on Cars3D",
    where="Figure 3, left",
    claim="The scores of the six methods overlap heavily.",
    published=published_overlap,
    studies=STUDIES,
    obtain=obtain_overlap,
    verdict=verdict_overlap,
    plot=plot,
)
SEED_AGAINST_STRENGTH = Recipe(
    name="common-assumptions/seed-against-strength",
    title="FactorVAE score of FactorVAE by strength on Cars3D",
    where="Figure 3, right",
    claim="A good seed with a bad strength can beat a bad seed with a good strength.",
    published=published_seed,
    studies=STUDIES,
    obtain=obtain_seed,
    verdict=verdict_seed,
    plot=plot,
)
CHOICE_RULES = Recipe(
    name="common-assumptions/choice-rules",
    title="Scores against strength: is there a method or a strength to prefer?",
    where="Figure 4, left",
    claim="No method consistently dominates all others, and no method has a consistent rule for "
    "its strength.",
    published=published_rules,
    studies=STUDIES,
    obtain=obtain_rules,
    verdict=verdict_rules,
    plot=plot,
)
