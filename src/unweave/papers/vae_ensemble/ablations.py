"""Figures 4 and 8: ensembles without cross-model reconstruction, or without linear maps."""

from collections.abc import Iterator
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
from unweave.papers.vae_ensemble.alignment import (
    IN_USE,
    LEARNED,
    NORMS,
    SMALL,
    distances_of,
    zero_distances,
)
from unweave.papers.vae_ensemble.models import (
    ENSEMBLE,
    ORIGINAL,
    WITHOUT_ALIGNMENT,
    WITHOUT_CROSS,
    kinds,
    scored,
)
from unweave.papers.vae_ensemble.studies import ABLATIONS

__all__ = ["FIGURE_4", "FIGURE_8"]

LOWER = "without cross-model reconstruction {} is lower"
LOWER_TOO = "without the loss of the linear maps {} is lower"
MUCH_LOWER = "without the loss of the linear maps {} is much lower at every ensemble size"
NARROWS = "the gap without cross-model reconstruction gets smaller as γ grows"
STAYS_SMALL = "without cross-model reconstruction the distance to orthogonality is small"
LOWERS = "cross-model reconstruction lowers it further"
FACTOR_VAE, DCI = "the FactorVAE metric", "DCI"
published_4 = partial(
    claims,
    LOWER.format(FACTOR_VAE),
    LOWER_TOO.format(FACTOR_VAE),
    MUCH_LOWER.format(FACTOR_VAE),
    NARROWS,
)
published_8 = partial(claims, LOWER.format(DCI), MUCH_LOWER.format(DCI), STAYS_SMALL, LOWERS)


def obtain_4(table: pd.DataFrame) -> pd.DataFrame:
    """Ablated ensembles against whole ones, by their number of members and γ.

    Much lower is by more than the standard deviation of whole ensembles over seeds and γ.
    """
    ensembles = _ensembles(table)
    rows = [*_scores(ensembles, "factor_vae", FACTOR_VAE), *_narrows(ensembles, "factor_vae")]
    frame = compared(published_4(), rows)
    return frame[frame["claim"].isin(published_4()["claim"])].reset_index(drop=True)


def obtain_8(table: pd.DataFrame) -> pd.DataFrame:
    """The same by DCI, and what cross reconstruction does to the distance of maps.

    A small distance is at most half of that of a map of zeros. Controls are distances on latents
    in use, relative to those of random orthogonal maps.
    """
    if NORMS[0] not in table:
        raise RecipeError(f"the table has no column {NORMS[0]!r}; `extend` adds it")
    ensembles = _ensembles(table)
    frame = compared(published_8(), [*_scores(ensembles, "dci", DCI), *_distances(ensembles)])
    return frame[frame["claim"].isin(published_8()["claim"])].reset_index(drop=True)


def extend_8(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The ensembles with the mean distances of the maps that they learned."""
    rows = scored(table)
    chosen = rows[rows["kind"].isin([ORIGINAL, WITHOUT_CROSS, WITHOUT_ALIGNMENT])]
    maps = distances_of(chosen, folder, Trained(folder))
    columns = ["num_latents", *(start + norm for start in ("", IN_USE) for norm in NORMS)]
    means = maps[maps["maps"] == LEARNED].groupby("run")[columns].mean()
    return chosen.join(means, on="run")


def _ensembles(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["method"] == ENSEMBLE].assign(kind=kinds(table))


def _cells(ensembles: pd.DataFrame, kind: str, column: str) -> pd.Series:
    """Means over seeds by members and γ."""
    rows = ensembles[ensembles["kind"] == kind]
    return rows.groupby(["members", "gamma"])[column].mean()


def _scores(ensembles: pd.DataFrame, column: str, name: str) -> Iterator[dict[str, Any]]:
    whole = _cells(ensembles, ORIGINAL, column)
    alone = _cells(ensembles, WITHOUT_CROSS, column)
    free = _cells(ensembles, WITHOUT_ALIGNMENT, column).groupby("members").mean()
    spreads = ensembles[ensembles["kind"] == ORIGINAL].groupby("members")[column].std(ddof=0)
    for (members, gamma), score in whole.items():
        of = f"n = {members:g}, γ = {gamma:g}"
        without = alone.get((members, gamma), np.nan)
        yield comparison(LOWER.format(name), of, column, without, score, without < score)
        without = free.get(members, np.nan)
        yield comparison(LOWER_TOO.format(name), of, column, without, score, without < score)
    for members, score in whole.groupby("members").mean().items():
        without, least = free.get(members, np.nan), score - spreads[members]
        by = f"{column}, less a standard deviation"
        of = f"n = {members:g}"
        yield comparison(MUCH_LOWER.format(name), of, by, without, least, without < least)


def _narrows(ensembles: pd.DataFrame, column: str) -> Iterator[dict[str, Any]]:
    gaps = _cells(ensembles, ORIGINAL, column) - _cells(ensembles, WITHOUT_CROSS, column)
    for members, part in gaps.dropna().groupby("members"):
        for ((_, low), before), ((_, high), after) in pairwise(part.items()):
            of = f"n = {members:g}, γ = {high:g} against {low:g}"
            yield comparison(NARROWS, of, f"gap of {column}", after, before, after < before)


def _distances(ensembles: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for norm in NORMS:
        zero = zero_distances(int(ensembles["num_latents"].iloc[0]))[norm]
        for (members, gamma), distance in _cells(ensembles, WITHOUT_CROSS, norm).items():
            of = f"n = {members:g}, γ = {gamma:g}"
            small = distance <= SMALL * zero
            yield comparison(STAYS_SMALL, of, f"{norm} against zeros", distance, zero, small)
        for by, control in ((norm, False), (IN_USE + norm, True)):
            whole = _cells(ensembles, ORIGINAL, by)
            for (members, gamma), distance in _cells(ensembles, WITHOUT_CROSS, by).items():
                with_both = whole.get((members, gamma), np.nan)
                of = f"n = {members:g}, γ = {gamma:g}"
                lower = with_both < distance
                yield comparison(LOWERS, of, by, with_both, distance, lower, control=control)


def plot_4(table: pd.DataFrame, path: Path) -> None:
    """The FactorVAE metric of whole and of ablated ensembles."""
    _draw(_ensembles(table), ("factor_vae",), path)


def plot_8(table: pd.DataFrame, path: Path) -> None:
    """DCI and both distances of whole and of ablated ensembles."""
    _draw(_ensembles(table), ("dci", *NORMS), path)


def _draw(ensembles: pd.DataFrame, columns: tuple[str, ...], path: Path) -> None:
    """A row per number, a column per γ: means and standard deviations by number of members."""
    from unweave.plots.colours import MARKERS, PALETTE
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels, plain

    gammas = sorted(ensembles[ensembles["kind"] == ORIGINAL]["gamma"].unique())
    figure, axes = panels(len(columns), len(gammas), (PAGE, 0.6 + 2 * len(columns)), sharey="row")
    for row, column in zip(axes, columns, strict=True):
        for axis, gamma in zip(row, gammas, strict=True):
            panel = plain(axis)
            for place, kind in enumerate((ORIGINAL, WITHOUT_CROSS, WITHOUT_ALIGNMENT)):
                rows = ensembles[ensembles["kind"] == kind]
                if kind != WITHOUT_ALIGNMENT:
                    rows = rows[rows["gamma"] == gamma]
                seen = rows.groupby("members")[column]
                style: dict[str, Any] = {"color": PALETTE[place], "fmt": f"{MARKERS[place]}-"}
                mean = seen.mean()
                panel.errorbar(
                    mean.index + 0.05 * place, mean, seen.std(ddof=0), label=kind, ms=3, **style
                )
            panel.set_title(f"γ = {gamma:g}", fontsize=TEXT)
            panel.set_xlabel("members", fontsize=TEXT)
            panel.set_xticks(sorted(ensembles["members"].unique()))
        row[0].set_ylabel(column, fontsize=TEXT)
    axes[0, 0].legend(frameon=False, fontsize=SMALL)
    figure.save(path)


FIGURE_4 = Recipe(
    name="vae-ensemble/figure-4",
    title="Ablation by the FactorVAE metric",
    where="Figure 4",
    claim="Both the cross-model reconstruction and the linear maps are needed.",
    published=published_4,
    studies=ABLATIONS,
    obtain=obtain_4,
    verdict=sentences,
    plot=plot_4,
)
FIGURE_8 = Recipe(
    name="vae-ensemble/figure-8",
    title="Ablation by DCI and by distance to orthogonality",
    where="Figure 8",
    claim="The ablation by DCI agrees with that by the FactorVAE metric, and cross-model "
    "reconstruction lowers the distance to orthogonality.",
    published=published_8,
    studies=ABLATIONS,
    extend=extend_8,
    obtain=obtain_8,
    verdict=sentences,
    plot=plot_8,
)
