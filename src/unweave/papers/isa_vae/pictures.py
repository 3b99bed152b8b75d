"""Figure 3: the prior; Figures 8 to 16: what latents do."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unweave.papers.isa_vae.trade_off import MIG, score_of
from unweave.papers.measurements import Trained

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = [
    "STATISTICS",
    "bimodality",
    "cost_of_a_square",
    "costs",
    "extend",
    "plot",
    "plot_costs",
    "prepare",
    "representative",
]

ENOUGH = 8
"""Models of a setting, for a coefficient to say something."""
PICTURED = 3.0
"""The β of the models that are drawn, as in the paper, or else the nearest there is."""
POINTS = 400
PICTURES = "pictures"


def cost_of_a_square(p: float, degrees: float) -> float:
    """E |z_1|^p + |z_2|^p of a uniform square [-1, 1]² after a turn: what a prior charges for it.

    Example:
        >>> round(cost_of_a_square(1.0, 0), 3), round(cost_of_a_square(1.0, 45), 3)
        (1.0, 0.943)
    """
    places = (np.arange(POINTS) + 0.5) / POINTS * 2 - 1
    x, y = np.meshgrid(places, places)
    angle = np.deg2rad(degrees)
    turned = np.cos(angle) * x - np.sin(angle) * y, np.sin(angle) * x + np.cos(angle) * y
    return float(sum((np.abs(z) ** p).mean() for z in turned))


def costs(_: pd.DataFrame) -> pd.DataFrame:
    """What two exponents charge along the axes, and after a turn by 45°."""
    rows = [(p, degrees, cost_of_a_square(p, degrees)) for p in (1.0, 4.0) for degrees in (0, 45)]
    return pd.DataFrame(rows, columns=["p", "degrees", "cost"])


def plot_costs(_: pd.DataFrame, path: Path) -> None:
    """The cost by angle, of a few exponents, relative to that along the axes."""
    from unweave.plots.colours import palette
    from unweave.plots.plot import COLUMN, SMALL, TEXT, panels, plain

    figure, axes = panels(1, 1, (COLUMN, 2.2))
    panel = plain(axes[0, 0])
    angles, exponents = np.linspace(0, 90, 37), (1.0, 1.5, 2.0, 2.5, 4.0)
    for p, colour in zip(exponents, palette(len(exponents)), strict=True):
        cost = np.array([cost_of_a_square(p, angle) for angle in angles])
        panel.plot(angles, cost / cost[0], color=colour, label=f"p = {p:g}", linewidth=1.2)
    panel.set_xlabel("turn of the square of positions [°]", fontsize=TEXT)
    panel.set_ylabel("cost, relative", fontsize=TEXT)
    panel.legend(frameon=False, fontsize=SMALL)
    figure.save(path)


def representative(table: pd.DataFrame) -> str:
    """The run that stands for a setting, as the paper chooses it.

    Of the half with the larger MIG, the one whose MIG and reconstruction are nearest to their
    mean, by Mahalanobis distance.
    """
    upper = table[table[MIG] >= table[MIG].median()]
    values = upper[[MIG, "reconstruction"]].to_numpy(float)
    apart = values - values.mean(0)
    weight = np.linalg.pinv(np.cov(apart.T)) if len(values) > 2 else np.eye(2)
    return str(upper["run"].iloc[np.einsum("ni,ij,nj->n", apart, weight, apart).argmin()])


def extend(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Draws traversals and maps of positions of each method's representative; the table itself."""
    trained = Trained(folder)
    scored = score_of(table[table["state"] == "scored"])
    for method, rows in scored.groupby("method"):
        nearest = (rows["strength"] - PICTURED).abs()
        run = representative(rows[nearest == nearest.min()])
        model = trained.model(run)
        _draw(model, trained.data(model), folder / PICTURES, str(method))
    return table


def _draw(model: "Model", data: "Dataset", folder: Path, method: str) -> None:
    from unweave.plots import position_maps, traversals

    folder.mkdir(exist_ok=True)
    traversals(model, data, columns=7, reach=2.0).save(folder / f"{method}-traversals.png")
    position_maps(model, data).save(folder / f"{method}-positions.svg")


def prepare(table: pd.DataFrame) -> pd.DataFrame:
    """The models of settings with so many of them that a coefficient says something."""
    scored = score_of(table)
    return scored[scored.groupby(["method", "strength"])[MIG].transform("size") >= ENOUGH]


def bimodality(values: np.ndarray) -> float:
    """Sarle's coefficient, (skewness² + 1) / kurtosis, corrected for the number of values.

    Example:
        >>> round(bimodality(np.array([0.0] * 50 + [1.0] * 50)), 2)
        0.95
    """
    n = len(values)
    apart = values - values.mean()
    spread = np.sqrt((apart**2).mean())
    if spread == 0:
        return np.nan
    skewness, kurtosis = ((apart / spread) ** 3).mean(), ((apart / spread) ** 4).mean()
    corrected = skewness * np.sqrt(n * (n - 1)) / (n - 2)
    excess = (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * (kurtosis - 3) + 6)
    return float((corrected**2 + 1) / (excess + 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))))


STATISTICS = {"bimodality": lambda rows, column: bimodality(rows[column].to_numpy(float))}


def plot(table: pd.DataFrame, path: Path) -> None:
    """MIG of all models, by method: two modes are two heaps."""
    from unweave.plots.colours import palette
    from unweave.plots.plot import COLUMN, SMALL, TEXT, panels, plain

    scored = score_of(table)
    methods = scored["method"].unique().tolist()
    figure, axes = panels(1, 1, (COLUMN, 2.2))
    panel = plain(axes[0, 0])
    edges = np.histogram_bin_edges(scored[MIG], 30).tolist()
    for method, colour in zip(methods, palette(len(methods)), strict=True):
        values = scored[scored["method"] == method][MIG]
        panel.hist(values, edges, color=colour, histtype="step", label=method)
    panel.set_xlabel("MIG", fontsize=TEXT)
    panel.set_ylabel("models", fontsize=TEXT)
    panel.legend(frameon=False, fontsize=SMALL)
    figure.save(path)
