"""Figures 4 and 8: ensembles without cross-model reconstruction, or without linear maps."""

from pathlib import Path

import pandas as pd

from unweave.papers.measurements import Trained
from unweave.papers.plots import Panel, draw_lines
from unweave.papers.vae_ensemble.alignment import (
    IN_USE,
    LEARNED,
    NORMS,
    distances_of,
    with_zeros,
)
from unweave.papers.vae_ensemble.models import (
    ENSEMBLE,
    ORIGINAL,
    WITHOUT_ALIGNMENT,
    WITHOUT_CROSS,
    kinds,
    scored,
)

__all__ = ["STATISTICS", "extend_8", "plot_4", "plot_8", "prepare"]


def extend_8(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The ensembles with the mean distances of the maps that they learned."""
    rows = scored(table)
    chosen = rows[rows["kind"].isin([ORIGINAL, WITHOUT_CROSS, WITHOUT_ALIGNMENT])]
    maps = distances_of(chosen, folder, Trained(folder))
    columns = ["num_latents", *(start + norm for start in ("", IN_USE) for norm in NORMS)]
    means = maps[maps["maps"] == LEARNED].groupby("run")[columns].mean()
    return chosen.join(means, on="run")


def prepare(table: pd.DataFrame) -> pd.DataFrame:
    """Ensembles with their kind and, where distances are known, those of maps of zeros."""
    rows = table[table["method"] == ENSEMBLE].assign(kind=kinds(table))
    return with_zeros(rows, "num_latents") if "num_latents" in rows else rows


def _mean_less_deviation(rows: pd.DataFrame, column: str) -> float:
    """The mean over γ of means over seeds, less the deviation over both."""
    return float(rows.groupby("gamma")[column].mean().mean() - rows[column].std(ddof=0))


def _gap_of_cross_reconstruction(rows: pd.DataFrame, column: str) -> float:
    means = rows.groupby("kind")[column].mean()
    return float(means.get(ORIGINAL, float("nan")) - means.get(WITHOUT_CROSS, float("nan")))


STATISTICS = {
    "mean_less_deviation": _mean_less_deviation,
    "gap_of_cross_reconstruction": _gap_of_cross_reconstruction,
}


def plot_4(table: pd.DataFrame, path: Path) -> None:
    """The FactorVAE metric of whole and of ablated ensembles."""
    _draw(prepare(table), ("factor_vae",), path)


def plot_8(table: pd.DataFrame, path: Path) -> None:
    """DCI and both distances of whole and of ablated ensembles."""
    _draw(prepare(table), ("dci", *NORMS), path)


def _draw(ensembles: pd.DataFrame, columns: tuple[str, ...], path: Path) -> None:
    """A row per number, a column per γ: means and standard deviations by number of members."""
    gammas = sorted(ensembles[ensembles["kind"] == ORIGINAL]["gamma"].unique())
    free = ensembles["kind"] == WITHOUT_ALIGNMENT  # of which γ has no say
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
    draw_lines(grid, path, spread="bars", sharey="row")
