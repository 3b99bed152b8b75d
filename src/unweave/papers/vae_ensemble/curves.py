"""Figures 6 and 7: the distance of maps to signed permutations during training."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.papers.comparisons import compared, comparison, sentences
from unweave.papers.frames import claims
from unweave.papers.measurements import Trained
from unweave.papers.recipe import Recipe, RecipeError
from unweave.papers.vae_ensemble import studies
from unweave.papers.vae_ensemble.alignment import (
    LEARNED,
    NORMS,
    SMALL,
    distances_of,
    zero_distances,
)
from unweave.papers.vae_ensemble.models import APART, ORIGINAL, scored

__all__ = ["FIGURE_6", "FIGURE_7"]

LEARNED_COLUMNS = tuple(f"dto_{norm}" for norm in NORMS)
"""Of a curve: distances of the maps that an ensemble has learned so far, mean over pairs."""
FITTED_COLUMNS = tuple(f"fit_dto_{norm}" for norm in NORMS)
"""The same of least-squares maps between the codes of members."""
START = 0.1
"""Of training, before which nothing is said of what holds throughout."""
REACH = "ensembles (γ = 10) of every size reach a small distance to orthogonality"
DO_NOT = "original VAEs trained apart do not"
THROUGHOUT = "ensembles stay below original VAEs trained apart throughout training"
published_6 = partial(claims, REACH, DO_NOT, THROUGHOUT)


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
    largest = (rows["kind"] == ORIGINAL) & (rows["gamma"] == studies.LARGEST_GAMMA)
    return curves_of(rows[largest | (rows["kind"] == APART)], Trained(folder))


def obtain_6(table: pd.DataFrame) -> pd.DataFrame:
    """Ensembles and VAEs trained apart against a map of zeros, and against each other.

    A small distance is at most half of that of a map of zeros, which aligns nothing. Controls are
    least-squares maps between members, which is how VAEs trained apart are measured.
    """
    _require(table)
    return compared(published_6(), _comparisons_6(table))


def _comparisons_6(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    apart = table[table["kind"] == APART]
    zeros = zero_distances(int(table["latents"].iloc[0]))
    for norm, learned, fitted in zip(NORMS, LEARNED_COLUMNS, FITTED_COLUMNS, strict=True):
        zero = zeros[norm]
        for members, runs in table[table["kind"] == ORIGINAL].groupby("members"):
            of = f"n = {members:g}"
            for by, control in ((learned, False), (fitted, True)):
                end, small = _last(runs)[by].mean(), SMALL * zero
                yield comparison(REACH, of, by, end, zero, end <= small, control=control)
                below, how = _below(runs, by, apart, fitted), f"share of glances, {by}"
                yield comparison(THROUGHOUT, of, how, below, 1, below == 1, control=control)
        other = _last(apart)[fitted].mean()
        yield comparison(DO_NOT, "n = 10, apart", fitted, other, zero, other > SMALL * zero)


def _last(runs: pd.DataFrame) -> pd.DataFrame:
    """The last glance at each model."""
    return runs.loc[runs.groupby("run")["step"].idxmax()]


def _below(runs: pd.DataFrame, by: str, others: pd.DataFrame, their: str) -> float:
    """The share of glances, after the start, at which models are below others in the mean."""
    one, other = runs.groupby("step")[by].mean(), others.groupby("step")[their].mean()
    both = pd.concat([one, other], axis=1, keys=["one", "other"]).dropna()
    both = both[both.index >= START * runs["step"].max()]
    return float((both["one"] < both["other"]).mean())


def _require(table: pd.DataFrame) -> None:
    for column in ("step", *LEARNED_COLUMNS):
        if column not in table:
            raise RecipeError(f"the table has no column {column!r}; `extend` adds it")


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
    from unweave.plots.colours import PALETTE
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels, plain

    figure, axes = panels(1, len(columns), (PAGE, 2.6))
    for axis, column in zip(axes[0], columns, strict=True):
        panel = plain(axis)
        groups = table.groupby("name", sort=False)
        for colour, (name, runs) in zip(PALETTE, groups, strict=False):
            seen = runs.groupby("step")[column].agg(["mean", lambda v: v.std(ddof=0)])
            mean, spread = seen.iloc[:, 0], seen.iloc[:, 1]
            panel.plot(mean.index, mean, color=colour, linewidth=1, label=name)
            panel.fill_between(mean.index, mean - spread, mean + spread, color=colour, alpha=0.2)
        panel.set_xlabel("step", fontsize=TEXT)
        panel.set_ylabel(column, fontsize=TEXT)
        panel.set_ylim(bottom=0)
    axes[0, 0].legend(frameon=False, fontsize=SMALL)
    figure.save(path)


FALLS = "the distance falls during training"
LATENTS = "the distance falls as latents grow from 10 to 16 to 32"
MEMBERS = "the distance rises with the number of members"
GAMMA = "γ does not affect the distance significantly"
published_7 = partial(claims, FALLS, LATENTS, MEMBERS, GAMMA)


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


def obtain_7(table: pd.DataFrame) -> pd.DataFrame:
    """What training, latents, members and γ do to the distance.

    γ does nothing significant where its values differ by at most two standard deviations over
    seeds. By itself the printed distance falls with the number of latents: hence the controls,
    relative to random orthogonal maps, of all latents and of those in use.
    """
    _require(table)
    frame = compared(published_7(), _comparisons_7(table))
    return frame.assign(data=table["data"].iloc[0])


def _comparisons_7(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    two, end = table[table["members"] == 2], _last(table)
    last = _last(two)
    earlier = two[two["step"] < two.groupby("run")["step"].transform("max")]
    first = earlier.loc[earlier.groupby("run")["step"].idxmin()]
    for norm, learned in zip(NORMS, LEARNED_COLUMNS, strict=True):
        used = f"used_relative_{norm}"
        for d, runs in last.groupby("latents"):
            of = f"n = 2, d = {d}"
            begin, now = first[first["latents"] == d][learned].mean(), runs[learned].mean()
            yield comparison(FALLS, of, learned, now, begin, now < begin)
            by_gamma = runs.groupby("gamma")[learned]
            means, spread = by_gamma.mean(), 2 * np.sqrt(by_gamma.var(ddof=1).mean())
            apart = means.max() - means.min() if len(means) > 1 else np.nan
            yield comparison(GAMMA, of, f"range of {learned}", apart, spread, apart <= spread)
        for by in (learned, f"relative_{norm}", used):
            for (few, before), (many, after) in pairwise(
                last.groupby("latents")[by].mean().items()
            ):
                of = f"n = 2, d = {many} against {few}"
                control = by != learned
                yield comparison(LATENTS, of, by, after, before, after < before, control=control)
        for by in (learned, used):
            for d, runs in end.groupby("latents"):
                for (few, before), (many, after) in pairwise(
                    runs.groupby("members")[by].mean().items()
                ):
                    of = f"d = {d}, n = {many:g} against {few:g}"
                    rises = after > before
                    control = by != learned
                    yield comparison(MEMBERS, of, by, after, before, rises, control=control)


def plot_7(table: pd.DataFrame, path: Path) -> None:
    """Ensembles of two over training, by number of latents: both distances, and the control."""
    two = table[table["members"] == 2].sort_values("latents", kind="stable")
    lines = two.assign(name=two["latents"].map("{} latents".format))
    _draw(lines, (*LEARNED_COLUMNS, "relative_frobenius"), path)


FIGURE_6 = Recipe(
    name="vae-ensemble/figure-6",
    title="Distance to orthogonality during training on dSprites",
    where="Figure 6",
    claim="Ensembles keep a low distance to orthogonality throughout training, plain VAEs do not.",
    published=published_6,
    studies=studies.APART,
    extend=extend_6,
    obtain=obtain_6,
    verdict=sentences,
    plot=plot_6,
)
FIGURE_7 = Recipe(
    name="vae-ensemble/figure-7",
    title="Distance to orthogonality during training on CelebA, by number of latents",
    where="Figure 7",
    claim="The distance to orthogonality falls with training and with the number of latents "
    "(10, 16, 32).",
    published=published_7,
    studies=studies.COLOUR,
    extend=extend_7,
    obtain=obtain_7,
    verdict=partial(sentences, meant="celeba"),
    plot=plot_7,
)
