"""Figure 2: how far the maps between members are from signed permutations."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unweave.papers.measurements import Trained, computed_once
from unweave.papers.plots import points
from unweave.papers.vae_ensemble.models import ENSEMBLE, ORIGINAL, name_of, scored
from unweave.papers.vae_ensemble.studies import LARGEST_GAMMA, SINGLE

if TYPE_CHECKING:
    from unweave.analysis.latents import Latents

__all__ = [
    "IN_USE",
    "LEARNED",
    "NORMS",
    "STATISTICS",
    "distances_of",
    "extend",
    "plot",
    "with_zeros",
]

MAPS_FILE = "maps.parquet"
"""Distances of the maps of all ensembles, and of those between models of one method."""
LEARNED, FITTED = "learned", "least squares"
NORMS = ("frobenius", "mean_l1")
IN_USE = "used_relative_"
"""Begins distances of maps between latents in use, relative to those of random orthogonal maps."""


def extend(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """A row per ordered pair of models: distances of the map from the one to the other.

    Between members of an ensemble maps are those that it learned, and least-squares ones beside;
    between models of one method that were trained apart, least-squares ones.
    """
    rows = scored(table)
    largest = rows[(rows["kind"] == ORIGINAL) & (rows["gamma"] == LARGEST_GAMMA)]
    trained = Trained(folder)
    ensembles = distances_of(largest, folder, trained)
    groups = {
        str(method): models["run"].tolist()
        for method, models in rows[_as_in_table_1(rows)].groupby("method", sort=False)
        if len(models) > 1
    }
    runs = {name_of(group): group for group in groups.values()}

    def between(name: str) -> pd.DataFrame:
        return _fitted(trained.latents(trained.model(run) for run in runs[name]))

    kept = computed_once(folder / MAPS_FILE, list(runs), between, "mapping models to each other")
    methods = {name_of(group): method for method, group in groups.items()}
    return pd.concat([ensembles, kept.assign(method=kept["run"].map(methods))], ignore_index=True)


def _as_in_table_1(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Which models are single ones of the paper, not controls of another strength."""
    weak = rows["beta"].lt(1) if "beta" in rows else False
    return rows["method"].isin(SINGLE) & ~((rows["method"] == "beta_vae") & weak)


def distances_of(ensembles: pd.DataFrame, folder: Path, trained: Trained) -> pd.DataFrame:
    """What a table says of ensembles, for every map that they learned or that is fitted to them.

    Args:
        ensembles: Of the study table.
        folder: The study's, where distances are kept.
        trained: Its models.

    Returns:
        The columns of `unweave.select.map_distances`, its `latents` as `latents_in_use`;
        `num_latents`; `maps`: `learned` or `least squares`; and those of the table.
    """

    def of_run(run: str) -> pd.DataFrame:
        model = trained.model(run)
        latents = trained.latents(model.members)
        return pd.concat([_measured(model.maps, LEARNED, latents), _fitted(latents)])

    runs = ensembles["run"].tolist()
    kept = computed_once(folder / MAPS_FILE, runs, of_run, "measuring maps")
    return kept.merge(ensembles, on="run")


def _fitted(latents: "Latents") -> pd.DataFrame:
    from unweave.select import least_squares_maps

    return _measured(least_squares_maps(latents), FITTED, latents)


def _measured(maps: np.ndarray, which: str, latents: "Latents") -> pd.DataFrame:
    from unweave.select import map_distances

    found = map_distances(maps, latents.informative).rename(columns={"latents": "latents_in_use"})
    return found.assign(maps=which, num_latents=latents.means.shape[2])


def with_zeros(table: pd.DataFrame, latents: str) -> pd.DataFrame:
    """A table with both distances of maps of zeros, which align nothing: `zero_frobenius`, ….

    Args:
        table: With a column of numbers of latents.
        latents: Its name.

    Example:
        >>> with_zeros(pd.DataFrame({"d": [4]}), "d").to_dict("records")
        [{'d': 4, 'zero_frobenius': 2.0, 'zero_mean_l1': 0.25}]
    """
    return table.assign(zero_frobenius=np.sqrt(table[latents]), zero_mean_l1=1 / table[latents])


def _least_mean_of_a_method(rows: pd.DataFrame, column: str) -> float:
    return float(rows.groupby("method")[column].mean().min())


STATISTICS = {"least_mean_of_a_method": _least_mean_of_a_method}


def plot(table: pd.DataFrame, path: Path) -> None:
    """Mean and deviation over maps, setting by setting: both distances, and controls."""
    shown = table[(table["maps"] == LEARNED) | (table["method"] != ENSEMBLE)]
    ensembles = shown["method"] == ENSEMBLE
    names = shown["method"].mask(ensembles, "n = " + shown["members"].map("{:g}".format))
    groups = {"ensembles": sorted(names[ensembles].unique()), "apart": names[~ensembles].unique()}
    grid: list[list[tuple[str, dict[str, pd.DataFrame]]]] = []
    for norm in NORMS:
        grid.append([])
        for start, said in (("", ""), (IN_USE, ", in use, relative")):
            by_name = shown.groupby(names)[start + norm]
            every = pd.DataFrame({"mean": by_name.mean(), "deviation": by_name.std(ddof=0)})
            series = {group: every.loc[list(kept)] for group, kept in groups.items()}
            grid[-1].append((norm + said, series))
    points(grid, path, height=2.2, usual={f"{norm}, in use, relative": 1 for norm in NORMS})
