"""Tables 1 and 2: scores of ensembles, and how far their members differ."""

from pathlib import Path

import pandas as pd

from unweave.papers.frames import from_table
from unweave.papers.measurements import Trained, computed_once
from unweave.papers.recipe import Recipe, RecipeError
from unweave.papers.vae_ensemble.models import ENSEMBLE, ORIGINAL, STOPPED, kinds, scored
from unweave.papers.vae_ensemble.studies import STUDIES
from unweave.papers.verdicts import how_many, ordering

__all__ = ["TABLE_1", "TABLE_2"]

GAMMAS = (1, 5, 10)
METRICS = ("factor_vae", "dci")
STOPPED_NAME = f"{ENSEMBLE} ({STOPPED})"
WITHIN_FILE = "members.parquet"
"""Scores of all members of the ensembles in a study's folder."""
INDIVIDUAL = {
    "vae": "0.635±0.083 0.143±0.033",
    "beta_vae (β=4)": "0.665±0.089 0.198±0.076",
    "factor_vae (γ=40)": "0.764±0.075 0.253±0.072",
    "dip_vae_i (λ_od=5)": "0.638±0.108 0.049±0.017",
    "dip_vae_ii (λ_od=5)": "0.676±0.122 0.106±0.032",
    "beta_tc_vae (β=4)": "0.808±0.079 0.303±0.052",
}
ENSEMBLES = {
    "factor_vae": {
        2: "0.711±0.106 0.736±0.085 0.741±0.086",
        3: "0.794±0.030 0.792±0.075 0.821±0.066",
        4: "0.833±0.037 0.790±0.038 0.800±0.078",
        5: "0.828±0.016 0.786±0.051 0.739±0.085",
    },
    "dci": {
        2: "0.176±0.043 0.243±0.029 0.201±0.037",
        3: "0.214±0.064 0.236±0.051 0.311±0.060",
        4: "0.240±0.059 0.223±0.045 0.251±0.038",
        5: "0.242±0.032 0.244±0.039 0.196±0.050",
    },
}
WITHIN = {
    "factor_vae": {
        1: "0.0019 0.0090 0.0048 0.0081",
        5: "0.0058 0.0064 0.0089 0.0163",
        10: "0.0060 0.0046 0.0147 0.0139",
    },
    "dci": {
        1: "0.0024 0.0026 0.0028 0.0036",
        5: "0.0037 0.0054 0.0049 0.0040",
        10: "0.0013 0.0024 0.0041 0.0042",
    },
}


def published_scores() -> pd.DataFrame:
    """Mean and standard deviation over ten runs, of the first member where there are several."""
    single = from_table(INDIVIDUAL, ("factor_vae", "dci"), ("method", "metric"), members=1)
    ensembles = [
        from_table(rows, GAMMAS, ("members", "gamma"), metric=metric, method="vae_ensemble")
        for metric, rows in ENSEMBLES.items()
    ]
    frame = pd.concat([single, *ensembles], ignore_index=True)
    return frame[["metric", "method", "members", "gamma", "published", "spread"]]


def published_within() -> pd.DataFrame:
    """The standard deviation over the members of an ensemble, averaged over ten runs."""
    return pd.concat(
        [
            from_table(rows, (2, 3, 4, 5), ("gamma", "members"), metric=metric)
            for metric, rows in WITHIN.items()
        ],
        ignore_index=True,
    )


def obtain_scores(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over seeds, of the first member of ensembles.

    Rows without a published number are controls: single models with β = 1 / n, and ensembles
    whose targets do not follow.
    """
    rows = table.assign(method=_named(table)).dropna(subset="method")
    ensembles = rows["method"].str.startswith(ENSEMBLE)
    rows = rows.assign(
        members=rows["members"].where(ensembles, 1).astype(int),
        gamma=rows["gamma"].where(ensembles),
    )
    tidy = rows.melt(["method", "members", "gamma"], list(METRICS), "metric").dropna(
        subset="value"
    )
    keys = ["metric", "method", "members", "gamma"]
    groups = tidy.groupby(keys, dropna=False, sort=False)["value"]
    found = groups.agg(
        obtained="mean", obtained_spread=lambda values: values.std(ddof=0), models="count"
    ).reset_index()
    published = published_scores()
    controls = found[~found["method"].isin(published["method"])]
    return pd.concat([published.merge(found, how="left"), controls], ignore_index=True)


def _named(table: pd.DataFrame) -> pd.Series:
    """What models are called in the table; none for those that do not belong there."""
    named = {name.split(" ")[0]: name for name in INDIVIDUAL} | {ENSEMBLE: ENSEMBLE}
    names, kind = table["method"].map(named), kinds(table)
    names = names.mask(kind == STOPPED, STOPPED_NAME)
    names = names.mask(kind.notna() & ~kind.isin([ORIGINAL, STOPPED]))
    weak = (table["method"] == "beta_vae") & (table["beta"] < 1)
    return names.mask(weak, [f"beta_vae (β=1/{1 / beta:.3g})" for beta in table["beta"]])


def verdict_scores(frame: pd.DataFrame) -> list[str]:
    """Whether ensembles score above the single models that they are made of, and in what order."""
    sentences = []
    for metric, rows in frame.dropna(subset="obtained").groupby("metric", sort=False):
        printed = rows.dropna(subset="published")
        ensembles = printed[printed["method"] == ENSEMBLE]
        single = printed.set_index("method")["obtained"].drop(ENSEMBLE, errors="ignore")
        words = [f"{metric}:"]
        if "vae" in single and len(ensembles):
            above = how_many(ensembles["obtained"] > single["vae"], "ensemble")
            words.append(
                f"above the plain VAE ({single['vae']:.3f}), as published for all: {above};"
            )
            best = ensembles.loc[ensembles["obtained"].idxmax()]
            words.append(
                f"the best ensemble (n = {best['members']}, γ = {best['gamma']:g}) has "
                f"{best['obtained']:.3f}, the best single method ({single.idxmax()}) "
                f"{single.max():.3f};"
            )
        if len(printed) > 1:
            order = ordering(printed["published"], printed["obtained"])
            words.append(f"order of all cells: {order}.")
        sentences += [" ".join(words), *_controls(str(metric), rows)]
    return sentences


def _controls(metric: str, rows: pd.DataFrame) -> list[str]:
    """Whether ensembles of n do better than single models that are regularised as little."""
    ensembles = rows[rows["method"] == ENSEMBLE]
    weak = rows.set_index("method")["obtained"]
    controls = ensembles["members"].map(lambda n: weak.get(f"beta_vae (β=1/{n})"))
    known = ensembles[controls.notna()]
    sentences = []
    if len(known):
        above = how_many(known["obtained"] > controls[controls.notna()], "ensemble")
        sentences.append(f"{metric}, control: above a single VAE with β = 1 / n: {above}.")
    stopped = rows[rows["method"] == STOPPED_NAME]
    both = stopped.merge(ensembles, on=["members", "gamma"], suffixes=("", "_followed"))
    if len(both):
        above = how_many(both["obtained_followed"] > both["obtained"], "ensemble")
        sentences.append(
            f"{metric}, control: above the same ensemble with targets held fixed: {above}."
        )
    return sentences


def plot_scores(table: pd.DataFrame, path: Path) -> None:
    """A panel per metric: published and obtained, setting by setting."""
    from unweave.plots.colours import PALETTE
    from unweave.plots.plot import panels

    by_metric = obtain_scores(table).groupby("metric", sort=False)
    figure, places = panels(2, 1, (11, 7), sharex=True)
    for axes, (metric, rows) in zip(places.flat, by_metric, strict=True):
        labels = [
            row.method
            if row.members == 1
            else f"n={row.members}, γ={row.gamma:g}{', fixed targets' * (row.method != ENSEMBLE)}"
            for row in rows.itertuples()
        ]
        for shift, name, spread in ((-0.12, "published", "spread"), (0.12, "obtained", None)):
            error = rows[spread] if spread else rows["obtained_spread"]
            x = [place + shift for place in range(len(rows))]
            colour = PALETTE[0 if spread else 1]
            axes.errorbar(x, rows[name], error, fmt="o", color=colour, label=name, ms=4)
        axes.set_ylabel(metric)
        axes.set_xticks(range(len(rows)), labels, rotation=60, ha="right", fontsize=8)
        axes.legend(frameon=False)
    figure.save(path)


def extend_within(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The table with the standard deviation of each score over the members of an ensemble."""
    ensembles = scored(table)
    kept = _member_scores(ensembles[ensembles["kind"] == ORIGINAL], folder)
    spread = kept.groupby("run")[list(METRICS)].std(ddof=0).add_prefix("within_")
    return ensembles.join(spread, on="run", how="inner")


def _member_scores(ensembles: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """A row per member, computed once and kept in the study's folder."""
    from unweave.evaluation.evaluate import evaluate

    trained = Trained(folder)

    def of_run(run: str) -> pd.DataFrame:
        model = trained.model(run)
        data = trained.sources.open(model.config)
        scores = evaluate(model.members, data, metrics=list(METRICS), progress=False)
        return scores[list(METRICS)]

    runs = ensembles["run"].tolist()
    return computed_once(folder / WITHIN_FILE, runs, of_run, "scoring members")


def obtain_within(table: pd.DataFrame) -> pd.DataFrame:
    """The standard deviation over members, averaged over seeds."""
    missing = [metric for metric in METRICS if f"within_{metric}" not in table]
    if missing:
        raise RecipeError(f"the table has no column 'within_{missing[0]}'; `extend` adds it")
    columns = {f"within_{metric}": metric for metric in METRICS}
    spreads = table[["gamma", "members", *columns]].rename(columns=columns)
    tidy = spreads.melt(["gamma", "members"], list(METRICS), "metric")
    found = tidy.groupby(["metric", "gamma", "members"])["value"].agg(
        obtained="mean", models="count"
    )
    return published_within().merge(found.reset_index(), how="left")


def verdict_within(frame: pd.DataFrame) -> list[str]:
    """Whether members differ as little as published."""
    found = frame.dropna(subset="obtained")
    few = how_many(found["obtained"] < 0.02, "cell")
    return [
        f"Members of one ensemble differ by less than 0.02, as all published ones do, in {few}; "
        f"the largest spread is {found['obtained'].max():.4f}, published "
        f"{frame['published'].max():.4f}."
    ]


def plot_within(table: pd.DataFrame, path: Path) -> None:
    """Spread among members against their number, published and obtained."""
    from unweave.plots.colours import PALETTE
    from unweave.plots.plot import panels

    by_metric = obtain_within(table).groupby("metric", sort=False)
    figure, places = panels(1, 2, (7, 3))
    for axes, (metric, rows) in zip(places.flat, by_metric, strict=True):
        for colour, (gamma, part) in zip(PALETTE, rows.groupby("gamma"), strict=False):
            axes.plot(part["members"], part["published"], "o--", color=colour, ms=3)
            axes.plot(
                part["members"], part["obtained"], "s-", color=colour, ms=4, label=f"γ = {gamma:g}"
            )
        axes.set(xlabel="members", ylabel=f"spread of {metric} among members")
        axes.legend(frameon=False, title="dashed: published")
    figure.save(path)


TABLE_1 = Recipe(
    name="vae-ensemble/table-1",
    title="FactorVAE and DCI scores of single models and of ensembles on dSprites",
    where="Table 1",
    claim="Ensembles of plain VAEs score far above the plain VAE, and in many settings as well as "
    "or better than the methods made for disentangling.",
    published=published_scores,
    studies=STUDIES,
    obtain=obtain_scores,
    verdict=verdict_scores,
    plot=plot_scores,
)
TABLE_2 = Recipe(
    name="vae-ensemble/table-2",
    title="Standard deviation of scores among the members of one ensemble",
    where="Table 2",
    claim="The members of an ensemble learn similar codes: their scores hardly differ.",
    published=published_within,
    studies=STUDIES,
    extend=extend_within,
    obtain=obtain_within,
    verdict=verdict_within,
    plot=plot_within,
)
