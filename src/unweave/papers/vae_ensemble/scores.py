"""Tables 1 and 2: scores of ensembles, and how far their members differ."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from unweave.papers.catalog import published_table
from unweave.papers.claims import Count
from unweave.papers.measurements import Trained, computed_once
from unweave.papers.plots import Panel, draw_lines, points
from unweave.papers.vae_ensemble.models import ENSEMBLE, ORIGINAL, STOPPED, kinds, scored

__all__ = [
    "METRICS",
    "controls",
    "extend_within",
    "obtain_scores",
    "obtain_within",
    "plot_scores",
    "plot_within",
]

METRICS = ("factor_vae", "dci")
STOPPED_NAME = f"{ENSEMBLE} ({STOPPED})"
WITHIN_FILE = "members.parquet"
"""Scores of all members of the ensembles in a study's folder."""


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
    published = published_table(__package__, "table-1")
    controls = found[~found["method"].isin(published["method"])]
    return pd.concat([published.merge(found, how="left"), controls], ignore_index=True)


def _named(table: pd.DataFrame) -> pd.Series:
    """What models are called in the table; none for those that do not belong there."""
    printed = published_table(__package__, "table-1")["method"].unique()
    named = {name.split(" ")[0]: name for name in printed}
    names, kind = table["method"].map(named), kinds(table)
    names = names.mask(kind == STOPPED, STOPPED_NAME)
    names = names.mask(kind.notna() & ~kind.isin([ORIGINAL, STOPPED]))
    weak = (table["method"] == "beta_vae") & (table["beta"] < 1)
    return names.mask(weak, [f"beta_vae (β=1/{1 / beta:.3g})" for beta in table["beta"]])


def controls(frame: pd.DataFrame) -> Iterator[Count]:
    """Whether ensembles of n do better than single models that are regularised as little."""
    for metric, rows in frame.dropna(subset="obtained").groupby("metric", sort=False):
        ensembles = rows[rows["method"] == ENSEMBLE]
        single = rows.set_index("method")["obtained"]
        weak = ensembles["members"].map(lambda n, of=single: of.get(f"beta_vae (β=1/{n})"))
        above = ensembles["obtained"][weak.notna()] > weak.dropna()
        if len(above):
            text = f"Control: ensembles score above a single VAE with β = 1 / n, {metric}"
            yield Count(text, int(above.sum()), len(above), "ensembles")
        fixed = rows[rows["method"] == STOPPED_NAME]
        both = fixed.merge(ensembles, on=["members", "gamma"], suffixes=("", "_followed"))
        if len(both):
            above = both["obtained_followed"] > both["obtained"]
            text = f"Control: they score above the same with targets held fixed, {metric}"
            yield Count(text, int(above.sum()), len(above), "ensembles")


def plot_scores(table: pd.DataFrame, path: Path) -> None:
    """A panel per metric: published and obtained, setting by setting."""
    found = obtain_scores(table)
    settings = [
        row.method
        if row.members == 1
        else f"n={row.members}, γ={row.gamma:g}{', fixed targets' * (row.method != ENSEMBLE)}"
        for row in found.itertuples()
    ]
    columns = {"published": "spread", "obtained": "obtained_spread"}
    grid = []
    for metric, rows in found.assign(setting=settings).groupby("metric", sort=False):
        named = rows.set_index("setting")
        series = {
            mean: named[[mean, deviation]].set_axis(["mean", "deviation"], axis=1)
            for mean, deviation in columns.items()
        }
        grid.append([(str(metric), series)])
    points(grid, path, height=3.5)


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
    columns = {f"within_{metric}": metric for metric in METRICS}
    spreads = table[["gamma", "members", *columns]].rename(columns=columns)
    tidy = spreads.melt(["gamma", "members"], list(METRICS), "metric")
    found = tidy.groupby(["metric", "gamma", "members"])["value"].agg(
        obtained="mean", models="count"
    )
    return published_table(__package__, "table-2").merge(found.reset_index(), how="left")


def plot_within(table: pd.DataFrame, path: Path) -> None:
    """Spread among members against their number, published and obtained."""
    found = obtain_within(table)
    rows = found.assign(gamma=found["gamma"].map("γ = {:g},".format))
    both = {"published": "published", "obtained": "obtained"}
    grid = [
        Panel(rows=part, x="members", columns=both, by="gamma", ylabel=f"spread of {metric}")
        for metric, part in rows.groupby("metric", sort=False)
    ]
    draw_lines([grid], path)
