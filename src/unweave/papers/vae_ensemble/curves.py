"""Figures 6 and 7: the distance of maps to signed permutations during training."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.papers.claims import comparison
from unweave.papers.measurements import Trained
from unweave.papers.plots import Panel, draw_lines
from unweave.papers.recipe import RecipeError
from unweave.papers.vae_ensemble.alignment import LEARNED, NORMS, distances_of, with_zeros
from unweave.papers.vae_ensemble.models import APART, ORIGINAL, scored
from unweave.papers.vae_ensemble.studies import LARGEST_GAMMA

__all__ = ["STATISTICS", "extend_6", "extend_7", "plot_6", "plot_7", "prepare", "throughout"]

LEARNED_COLUMNS = tuple(f"dto_{norm}" for norm in NORMS)
"""Of a curve: distances of the maps that an ensemble has learned so far, mean over pairs."""
FITTED_COLUMNS = tuple(f"fit_dto_{norm}" for norm in NORMS)
"""The same of least-squares maps between the codes of members."""
START = 0.1
"""Of training, before which nothing is said of what holds throughout."""


def curves_of(rows: pd.DataFrame, trained: Trained) -> pd.DataFrame:
    """A row per model and glance: the distances of its curve, beside what the table says of it."""
    from unweave.models.files import read_curve

    parts = []
    configs = trained.store.ledger.configs(rows["run"].tolist())
    for run in rows["run"]:
        curve = read_curve(trained.store.runs / run)
        if not {*LEARNED_COLUMNS, *FITTED_COLUMNS} <= set(curve):
            raise RecipeError(
                f"the curve of run {run} has no distances of maps; train it again, in another "
                "folder"
            )
        seen = curve.dropna(subset=[*LEARNED_COLUMNS, *FITTED_COLUMNS], how="all")
        seen = seen[["step", *LEARNED_COLUMNS, *FITTED_COLUMNS]]
        parts.append(seen.assign(run=run, latents=configs[run]["latents"]))
    settings = rows[["run", "data", "kind", "members", "gamma", "seed"]]
    return pd.concat(parts, ignore_index=True).merge(settings, on="run")


def extend_6(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """A row per glance at an ensemble with γ = 10, or at VAEs trained apart."""
    rows = scored(table)
    largest = (rows["kind"] == ORIGINAL) & (rows["gamma"] == LARGEST_GAMMA)
    return curves_of(rows[largest | (rows["kind"] == APART)], Trained(folder))


def prepare(table: pd.DataFrame) -> pd.DataFrame:
    """Glances with distances of maps of zeros, and which glance at a model is the first, or last.

    The last one is no first one.
    """
    steps = table.groupby("run")["step"]
    last = table["step"] == steps.transform("max")
    first = ~last & (table["step"] == steps.transform("min"))
    glance = pd.Series("", table.index).mask(first, "first").mask(last, "last")
    return with_zeros(table.assign(glance=glance), "latents")


def throughout(table: pd.DataFrame, texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """In what share of glances ensembles are below VAEs trained apart."""
    apart, text = table[table["kind"] == APART], texts["throughout"]
    for learned, fitted in zip(LEARNED_COLUMNS, FITTED_COLUMNS, strict=True):
        for members, runs in table[table["kind"] == ORIGINAL].groupby("members"):
            for by in (learned, fitted):
                of, below = f"n = {members:g}", _below(runs, by, apart, fitted)
                said, control = f"share of glances, {by}", by == fitted
                yield comparison(text, of, said, below, 1, below == 1, control=control)


def _below(runs: pd.DataFrame, by: str, others: pd.DataFrame, their: str) -> float:
    """The share of glances, after the start, at which models are below others in the mean."""
    one, other = runs.groupby("step")[by].mean(), others.groupby("step")[their].mean()
    both = pd.concat([one, other], axis=1, keys=["one", "other"]).dropna()
    both = both[both.index >= START * runs["step"].max()]
    return float((both["one"] < both["other"]).mean())


def _range_over_gamma(rows: pd.DataFrame, column: str) -> float:
    means = rows.groupby("gamma")[column].mean()
    return float(means.max() - means.min()) if len(means) > 1 else float("nan")


def _two_deviations_over_seeds(rows: pd.DataFrame, column: str) -> float:
    return float(2 * np.sqrt(rows.groupby("gamma")[column].var(ddof=1).mean()))


STATISTICS = {
    "range_over_gamma": _range_over_gamma,
    "two_deviations_over_seeds": _two_deviations_over_seeds,
}


def plot_6(table: pd.DataFrame, path: Path) -> None:
    """Both distances over training: ensembles by their size, and VAEs trained apart."""
    apart = table["kind"] == APART
    lines = table.assign(
        name=("n = " + table["members"].map("{:g}".format)).mask(apart, "VAEs apart"),
        **{
            learned: table[learned].mask(apart, table[fitted])
            for learned, fitted in zip(LEARNED_COLUMNS, FITTED_COLUMNS, strict=True)
        },
    )
    _draw(lines, LEARNED_COLUMNS, path)


def _draw(table: pd.DataFrame, columns: Sequence[str], path: Path) -> None:
    """A panel per column: mean and standard deviation over runs, by `name`, over steps."""
    row = [
        Panel(rows=table, x="step", columns={column: column}, by="name", ylabel=column)
        for column in columns
    ]
    draw_lines([row], path, spread="band")


def extend_7(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """A row per glance at an ensemble, with controls of its last maps.

    `relative_…`: relative to random orthogonal maps of as many latents; `used_relative_…`: the
    same of latents in use only, at the end of training.
    """
    from unweave.analysis.maps import random_distances

    rows = scored(table)
    ensembles, trained = rows[rows["kind"] == ORIGINAL], Trained(folder)
    glances = curves_of(ensembles, trained)
    for norm, learned in zip(NORMS, LEARNED_COLUMNS, strict=True):
        usual = glances["latents"].map(lambda d, norm=norm: random_distances(d)[norm])
        glances[f"relative_{norm}"] = glances[learned] / usual
    maps = distances_of(ensembles, folder, trained)
    used = [f"used_relative_{norm}" for norm in NORMS]
    means = maps[maps["maps"] == LEARNED].groupby("run")[used].mean()
    return glances.join(means, on="run")


def plot_7(table: pd.DataFrame, path: Path) -> None:
    """Ensembles of two over training, by number of latents: both distances, and the control."""
    two = table[table["members"] == 2].sort_values("latents", kind="stable")
    lines = two.assign(name=two["latents"].map("{} latents".format))
    _draw(lines, (*LEARNED_COLUMNS, "relative_frobenius"), path)
