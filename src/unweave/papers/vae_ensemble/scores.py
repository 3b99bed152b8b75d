"""Scores of single models and ensembles: Tables 1 and 2, Figures 4 and 8, larger ensembles."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.papers.claims import Count, comparison
from unweave.papers.measurements import Trained, scored_models
from unweave.papers.plots import Panel, draw
from unweave.papers.recipe import data_file, published_table

METRICS = ("factor_vae", "dci")
ENSEMBLE = "vae_ensemble"
ORIGINAL, WITHOUT_CROSS, WITHOUT_ALIGNMENT = "original", "w.o. CR", "w.o. LT"
APART, STOPPED, PARTIAL = "trained apart", "stop_grad_target", "neighbours"
STOPPED_NAME = f"{ENSEMBLE} ({STOPPED})"
LARGEST_GAMMA = 10
"""Value of γ for which the paper shows maps and latents."""
LARGEST = 5
"""Number of members of the largest ensembles in the paper."""
WITHIN_FILE = "members.parquet"
"""Cache of the scores of all ensemble members, in the study folder."""
_METHODS = data_file(__package__, "studies.yaml")["studies"]["scores"]["paper"]["methods"]
SINGLE = {name: keys for name, keys in _METHODS.items() if name != ENSEMBLE} | {
    "beta_vae": {"beta": 4}
}
"""Single-model methods of Table 1 and their settings."""


def scored(table: pd.DataFrame) -> pd.DataFrame:
    """Return the models that are trained and scored, with their `kind`."""
    rows = scored_models(table, ENSEMBLE)
    return rows.assign(kind=kinds(rows))


def kinds(table: pd.DataFrame) -> pd.Series:
    """Classify ensembles: original or a variant; missing for other models.

    Example:
        >>> settings = {"method": "vae_ensemble", "cross_reconstruction": [True, False, False]}
        >>> kinds(pd.DataFrame({**settings, "alignment": [True, True, False]})).tolist()
        ['original', 'w.o. CR', 'trained apart']
    """
    flags = table.reindex(columns=["cross_reconstruction", "alignment", "stop_grad_target"])
    alone, free = flags["cross_reconstruction"].eq(False), flags["alignment"].eq(False)
    partial = table.reindex(columns=["neighbours"])["neighbours"].ge(0)
    kind = pd.Series(ORIGINAL, table.index).mask(partial, PARTIAL)
    kind = kind.mask(flags["stop_grad_target"].eq(True), STOPPED)
    kind = kind.mask(alone, WITHOUT_CROSS).mask(free, WITHOUT_ALIGNMENT).mask(alone & free, APART)
    return kind.where(table["method"] == ENSEMBLE)


def ensembles_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return the ensembles of a table, with their `kind`."""
    return table[table["method"] == ENSEMBLE].assign(kind=kinds(table))


def obtain_scores(table: pd.DataFrame) -> pd.DataFrame:
    """Compute mean and standard deviation of scores over seeds; ensembles use the first member.

    Rows without a published number are controls: single models with β = 1 / n, and ensembles
    with fixed targets.
    """
    # A study of a single method lacks the hyperparameter columns of other methods.
    table = table.reindex(columns=table.columns.union(["members", "gamma", "beta"], sort=False))
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
    """Return the names of models in Table 1; missing for models that do not belong there."""
    printed = published_table(__package__, "table-1")["method"].unique()
    named = {name.split(" ")[0]: name for name in printed}
    names, kind = table["method"].map(named), kinds(table)
    names = names.mask(kind == STOPPED, STOPPED_NAME)
    names = names.mask(kind.notna() & ~kind.isin([ORIGINAL, STOPPED]))
    weak = (table["method"] == "beta_vae") & table["beta"].between(0, 1, inclusive="neither")
    inverse = 1 / table["beta"].where(weak)
    return names.mask(weak, inverse.map("beta_vae (β=1/{:.3g})".format))


def controls(frame: pd.DataFrame) -> Iterator[Count]:
    """Compare ensembles with equally weakly regularised single models and with fixed targets."""
    for metric, rows in frame.dropna(subset="obtained").groupby("metric", sort=False):
        ensembles = rows[rows["method"] == ENSEMBLE]
        single = rows.set_index("method")["obtained"]
        weak = ensembles["members"].map(lambda n, of=single: of.get(f"beta_vae (β=1/{n})"))
        fixed = rows[rows["method"] == STOPPED_NAME].merge(ensembles, on=["members", "gamma"])
        for other, scores, others in (
            ("a single VAE with β = 1 / n", ensembles["obtained"][weak.notna()], weak.dropna()),
            ("the same ensembles with fixed targets", fixed["obtained_y"], fixed["obtained_x"]),
        ):
            if len(scores):
                text = f"Control: ensembles score above {other}, {metric}"
                yield Count(text, int((scores > others).sum()), len(scores), "ensembles")


def plot_scores(table: pd.DataFrame, path: Path) -> None:
    """Plot published and obtained scores by setting, with a panel per metric."""
    found = obtain_scores(table)
    settings = [
        row.method
        if row.members == 1
        else f"n={row.members}, γ={row.gamma:g}{', fixed targets' * (row.method != ENSEMBLE)}"
        for row in found.itertuples()
    ]
    both = {"published": "published", "obtained": "obtained"}
    spreads = {"published": "spread", "obtained": "obtained_spread"}
    grid = [
        [Panel(rows=rows, x="setting", columns=both, deviations=spreads, ylabel=str(metric))]
        for metric, rows in found.assign(setting=settings).groupby("metric", sort=False)
    ]
    draw(grid, "points", height=3.5, sharex=True).save(path)


def extend_within(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Add the standard deviation of each score over the members of an ensemble."""
    from unweave.evaluation.evaluate import evaluate
    from unweave.models.model import Model

    trained, rows, metrics = Trained(folder), scored(table), list(METRICS)

    def scores(model: Model) -> pd.DataFrame:
        data = trained.store.data_of(model.config)
        return evaluate(model.members, data, metrics=metrics, progress=False)[metrics]

    runs = rows[rows["kind"] == ORIGINAL]["run"]
    found = trained.measured(WITHIN_FILE, runs, scores, "scoring members")
    spread = found.groupby("run")[metrics].std(ddof=0).add_prefix("within_")
    return rows.join(spread, on="run", how="inner")


def obtain_within(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the standard deviation over members, averaged over seeds."""
    columns = {f"within_{metric}": metric for metric in METRICS}
    spreads = table[["gamma", "members", *columns]].rename(columns=columns)
    tidy = spreads.melt(["gamma", "members"], list(METRICS), "metric")
    found = tidy.groupby(["metric", "gamma", "members"])["value"].agg(
        obtained="mean", models="count"
    )
    return published_table(__package__, "table-2").merge(found.reset_index(), how="left")


def plot_within(table: pd.DataFrame, path: Path) -> None:
    """Plot the published and obtained spread among members against their number."""
    found = obtain_within(table)
    rows = found.assign(gamma=found["gamma"].map("γ = {:g},".format))
    both = {"published": "published", "obtained": "obtained"}
    grid = [
        Panel(rows=part, x="members", columns=both, by="gamma", ylabel=f"spread of {metric}")
        for metric, part in rows.groupby("metric", sort=False)
    ]
    draw([grid]).save(path)


def plot_ablations(columns: Sequence[str], table: pd.DataFrame, path: Path) -> None:
    """Plot complete and ablated ensembles by size: a row per column, a panel per γ."""
    ensembles = ensembles_of(table)
    gammas = sorted(ensembles[ensembles["kind"] == ORIGINAL]["gamma"].unique())
    free = ensembles["kind"] == WITHOUT_ALIGNMENT  # independent of γ
    grid = [
        [
            Panel(
                rows=ensembles[free | (ensembles["gamma"] == gamma)],
                x="members",
                columns={column: column},
                by="kind",
                kinds=(ORIGINAL, WITHOUT_CROSS, WITHOUT_ALIGNMENT),
                title=f"γ = {gamma:g}",
                ylabel=column if gamma == gammas[0] else "",
            )
            for gamma in gammas
        ]
        for column in columns
    ]
    draw(grid, "error bars", sharey="row").save(path)


def with_gamma_1(table: pd.DataFrame) -> pd.DataFrame:
    """Return the ensembles with γ = 1, with their `kind`."""
    return ensembles_of(table[table["gamma"] == 1])


def slower(ensembles: pd.DataFrame, texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Compare the gain per additional member with the gain of the members before."""
    for metric in METRICS:
        whole = ensembles[ensembles["kind"] == ORIGINAL].groupby("members")[metric].mean()
        gains = [
            (many, few, (after - before) / (many - few))
            for (few, before), (many, after) in pairwise(whole.items())
        ]
        for (*_, before), (many, few, after) in pairwise(gains):
            of, by = f"n = {many:g} against {few:g}", f"gain of {metric} per member"
            text, control = texts["slower"], many > LARGEST
            yield comparison(text, of, by, after, before, after < before, control=control)


def plot_beyond(table: pd.DataFrame, path: Path) -> None:
    """Plot both scores by number of members, for maps to all or to some other members."""
    ensembles = with_gamma_1(table).sort_values("neighbours", kind="stable")
    mapped = ensembles["neighbours"].map("mapped to {:g}".format)
    named = ensembles.assign(mapped=mapped.mask(ensembles["neighbours"] < 0, "mapped to all"))
    grid = [
        Panel(rows=named, x="members", columns={metric: metric}, by="mapped", ylabel=metric)
        for metric in METRICS
    ]
    draw([grid], "error bars").save(path)


def _mean_less_deviation(rows: pd.DataFrame, column: str) -> float:
    """Mean over γ of means over seeds, minus the standard deviation over both."""
    return float(rows.groupby("gamma")[column].mean().mean() - rows[column].std(ddof=0))


def _gap_of_cross_reconstruction(rows: pd.DataFrame, column: str) -> float:
    means = rows.groupby("kind")[column].mean()
    return float(means.get(ORIGINAL, float("nan")) - means.get(WITHOUT_CROSS, float("nan")))


STATISTICS = {
    "mean_less_deviation": _mean_less_deviation,
    "gap_of_cross_reconstruction": _gap_of_cross_reconstruction,
}
