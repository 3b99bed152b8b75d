"""Figures 2, 6, 7 and 8: distances of maps between members from signed permutations."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.papers.claims import comparison
from unweave.papers.measurements import Trained, computed_once
from unweave.papers.plots import Panel, draw
from unweave.papers.recipe import RecipeError
from unweave.papers.vae_ensemble.scores import (
    APART,
    ENSEMBLE,
    LARGEST_GAMMA,
    ORIGINAL,
    SINGLE,
    WITHOUT_ALIGNMENT,
    WITHOUT_CROSS,
    ensembles_of,
    scored,
)

if TYPE_CHECKING:
    from unweave.analysis.latents import Latents
    from unweave.models.model import Model

MAPS_FILE = "maps.parquet"
"""Cache of distances of maps between ensemble members and between models of one method."""
LEARNED, FITTED = "learned", "least squares"
NORMS = ("frobenius", "mean_l1")
USED = tuple(f"used_relative_{norm}" for norm in NORMS)
"""Columns of distances of maps between used latents, relative to random orthogonal maps."""
LEARNED_COLUMNS = tuple(f"dto_{norm}" for norm in NORMS)
"""Columns of training curves: mean distances of the learned maps of an ensemble."""
FITTED_COLUMNS = tuple(f"fit_dto_{norm}" for norm in NORMS)
"""Columns of training curves: mean distances of least-squares maps between members."""
START = 0.1
"""Initial fraction of training that is excluded from claims about all of training."""


def distances_of(ensembles: pd.DataFrame, trained: Trained) -> pd.DataFrame:
    """Compute distances of all learned and least-squares maps between members of ensembles.

    Returns:
        A table with a row per map: the columns of `unweave.select.map_distances`, with `latents`
        renamed to `latents_in_use`; `num_latents`; `maps`, which is `learned` or `least squares`;
        and the columns of `ensembles`.
    """

    def both(model: "Model") -> pd.DataFrame:
        latents = trained.latents(model.members)
        return pd.concat([_measured(model.maps, LEARNED, latents), _fitted(latents)])

    found = trained.measured(MAPS_FILE, ensembles["run"], both, "measuring maps")
    return found.merge(ensembles, on="run")


def _learned_means(ensembles: pd.DataFrame, trained: Trained) -> pd.DataFrame:
    """Return the mean distances of learned maps, by run."""
    maps = distances_of(ensembles, trained)
    columns = ["num_latents", *NORMS, *USED]
    return maps[maps["maps"] == LEARNED].groupby("run")[columns].mean()


def _fitted(latents: "Latents") -> pd.DataFrame:
    from unweave.select import least_squares_maps

    return _measured(least_squares_maps(latents), FITTED, latents)


def _measured(maps: np.ndarray, which: str, latents: "Latents") -> pd.DataFrame:
    from unweave.select import map_distances

    found = map_distances(maps, latents.informative).rename(columns={"latents": "latents_in_use"})
    return found.assign(maps=which, num_latents=latents.means.shape[2])


def with_zero_maps(table: pd.DataFrame, latents: str) -> pd.DataFrame:
    """Add both distances of zero maps, which align nothing: `zero_frobenius`, `zero_mean_l1`.

    Example:
        >>> with_zero_maps(pd.DataFrame({"d": [4]}), "d").to_dict("records")
        [{'d': 4, 'zero_frobenius': 2.0, 'zero_mean_l1': 0.25}]
    """
    return table.assign(zero_frobenius=np.sqrt(table[latents]), zero_mean_l1=1 / table[latents])


def extend_2(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return a row per ordered pair of models: distances of the map from one to the other.

    Members of an ensemble have learned maps and least-squares maps; separately trained models of
    one method have least-squares maps only.
    """
    rows, trained = scored(table), Trained(folder)
    largest = rows[(rows["kind"] == ORIGINAL) & (rows["gamma"] == LARGEST_GAMMA)]
    ensembles = distances_of(largest, trained)
    # The β-VAEs with β < 1 are additional controls, not single models of the paper.
    weak = (rows["method"] == "beta_vae") & (rows["beta"].lt(1) if "beta" in rows else False)
    single = rows[rows["method"].isin(SINGLE) & ~weak].groupby("method", sort=False)["run"]
    groups = {method: runs.tolist() for method, runs in single if len(runs) > 1}
    names = {method: _name_of(runs) for method, runs in groups.items()}
    runs_of = {names[method]: runs for method, runs in groups.items()}

    def between(name: str) -> pd.DataFrame:
        return _fitted(trained.latents(trained.model(run) for run in runs_of[name]))

    file, job = folder / MAPS_FILE, "fitting maps between models"
    apart = computed_once(file, list(runs_of), between, job)
    methods = {name: method for method, name in names.items()}
    apart = apart.assign(method=apart["run"].map(methods))
    return pd.concat([ensembles, apart], ignore_index=True)


def _name_of(runs: Sequence[str]) -> str:
    """Return one name for a group of runs."""
    return hashlib.sha256(" ".join(sorted(runs)).encode()).hexdigest()[:16]


def plot_2(table: pd.DataFrame, path: Path) -> None:
    """Plot mean and standard deviation over maps by setting: both distances, and controls."""
    shown = table[(table["maps"] == LEARNED) | (table["method"] != ENSEMBLE)]
    ensembles = shown["method"] == ENSEMBLE
    named = shown.assign(
        setting=shown["method"].mask(ensembles, "n = " + shown["members"].map("{:g}".format)),
        group=ensembles.map({True: "ensembles", False: "separate models"}),
    ).sort_values(["group", "members"], kind="stable")
    grid = [
        [
            Panel(rows=named, x="setting", columns={column: column}, by="group", **more)
            for column, more in (
                (norm, {"ylabel": norm}),
                (used, {"ylabel": f"{norm}, used, relative", "usual": 1}),
            )
        ]
        for norm, used in zip(NORMS, USED, strict=True)
    ]
    draw(grid, "points", height=2.2, sharex=True).save(path)


def curves_of(rows: pd.DataFrame, trained: Trained) -> pd.DataFrame:
    """Return a row per model and recorded step: distances from its curve, and its settings."""
    from unweave.models.files import read_curve

    parts, columns = [], [*LEARNED_COLUMNS, *FITTED_COLUMNS]
    configs = trained.store.ledger.configs(rows["run"].tolist())
    for run in rows["run"]:
        curve = read_curve(trained.store.runs / run)
        if not set(columns) <= set(curve):
            raise RecipeError(
                f"the training curve of run {run} has no map distances; train the model again in "
                "another folder",
                subject=run,
            )
        recorded = curve.dropna(subset=columns, how="all")[["step", *columns]]
        parts.append(recorded.assign(run=run, latents=configs[run]["latents"]))
    settings = rows[["run", "data", "kind", "members", "gamma", "seed"]]
    return pd.concat(parts, ignore_index=True).merge(settings, on="run")


def curves_with_zero_maps(table: pd.DataFrame) -> pd.DataFrame:
    """Add distances of zero maps to curves, and `point`, which marks the `first` and `last` step.

    A single point counts as the last.
    """
    steps = table.groupby("run")["step"]
    last = table["step"] == steps.transform("max")
    first = ~last & (table["step"] == steps.transform("min"))
    point = pd.Series("", table.index).mask(first, "first").mask(last, "last")
    return with_zero_maps(table.assign(point=point), "latents")


def extend_6(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return training curves of ensembles with γ = 10 and of separately trained VAEs."""
    rows = scored(table)
    largest = (rows["kind"] == ORIGINAL) & (rows["gamma"] == LARGEST_GAMMA)
    return curves_of(rows[largest | (rows["kind"] == APART)], Trained(folder))


def throughout(table: pd.DataFrame, texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the share of recorded steps at which ensembles are below separately trained VAEs."""
    apart, text = table[table["kind"] == APART], texts["throughout"]
    for learned, fitted in zip(LEARNED_COLUMNS, FITTED_COLUMNS, strict=True):
        for members, runs in table[table["kind"] == ORIGINAL].groupby("members"):
            for by in (learned, fitted):
                of, below = f"n = {members:g}", _below(runs, by, apart, fitted)
                quantity, control = f"share of recorded steps, {by}", by == fitted
                yield comparison(text, of, quantity, below, 1, below == 1, control=control)


def _below(runs: pd.DataFrame, by: str, others: pd.DataFrame, their: str) -> float:
    """Return the share of recorded steps after `START` at which the mean is below the others'."""
    one, other = runs.groupby("step")[by].mean(), others.groupby("step")[their].mean()
    both = pd.concat([one, other], axis=1, keys=["one", "other"]).dropna()
    both = both[both.index >= START * runs["step"].max()]
    return float((both["one"] < both["other"]).mean())


def plot_6(table: pd.DataFrame, path: Path) -> None:
    """Plot both distances over training, for ensembles by size and separately trained VAEs."""
    apart = table["kind"] == APART
    lines = table.assign(
        name=("n = " + table["members"].map("{:g}".format)).mask(apart, "separate VAEs"),
        **{
            learned: table[learned].mask(apart, table[fitted])
            for learned, fitted in zip(LEARNED_COLUMNS, FITTED_COLUMNS, strict=True)
        },
    )
    _draw_curves(lines, LEARNED_COLUMNS, path)


def _draw_curves(table: pd.DataFrame, columns: Sequence[str], path: Path) -> None:
    """Plot mean and standard deviation over runs against steps, by `name`, a panel per column."""
    row = [
        Panel(rows=table, x="step", columns={column: column}, by="name", ylabel=column)
        for column in columns
    ]
    draw([row], "band").save(path)


def extend_7(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return training curves of ensembles, with controls.

    Additional columns: `relative_…`, distances relative to random orthogonal maps of the same
    size; `used_relative_…`, the same for used latents only, at the end of training.
    """
    from unweave.analysis.maps import random_distances

    rows, trained = scored(table), Trained(folder)
    ensembles = rows[rows["kind"] == ORIGINAL]
    curves = curves_of(ensembles, trained)
    for norm, learned in zip(NORMS, LEARNED_COLUMNS, strict=True):
        usual = curves["latents"].map(lambda d, norm=norm: random_distances(d)[norm])
        curves[f"relative_{norm}"] = curves[learned] / usual
    return curves.join(_learned_means(ensembles, trained)[list(USED)], on="run")


def plot_7(table: pd.DataFrame, path: Path) -> None:
    """Plot both distances and a control for ensembles of two over training, by latents."""
    two = table[table["members"] == 2].sort_values("latents", kind="stable")
    lines = two.assign(name=two["latents"].map("{} latents".format))
    _draw_curves(lines, (*LEARNED_COLUMNS, "relative_frobenius"), path)


def extend_8(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return the ensembles with the mean distances of their learned maps."""
    rows = scored(table)
    chosen = rows[rows["kind"].isin([ORIGINAL, WITHOUT_CROSS, WITHOUT_ALIGNMENT])]
    return chosen.join(_learned_means(chosen, Trained(folder)), on="run")


def ablations_with_zero_maps(table: pd.DataFrame) -> pd.DataFrame:
    """Return the ensembles with their kind and the distances of zero maps."""
    return with_zero_maps(ensembles_of(table), "num_latents")


def _range_over_gamma(rows: pd.DataFrame, column: str) -> float:
    means = rows.groupby("gamma")[column].mean()
    return float(means.max() - means.min()) if len(means) > 1 else float("nan")


STATISTICS = {
    "range_over_gamma": _range_over_gamma,
    "two_deviations_over_seeds": lambda rows, column: float(
        2 * np.sqrt(rows.groupby("gamma")[column].var(ddof=1).mean())
    ),
}
