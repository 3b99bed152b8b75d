"""Figures 2 to 4: the prior; Figures 8 to 16: what latents do."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.papers.comparisons import compared, comparison, sentences
from unweave.papers.frames import claims, shown
from unweave.papers.isa_vae.studies import SPRITES
from unweave.papers.isa_vae.trade_off import MIG, score_of
from unweave.papers.measurements import Trained
from unweave.papers.recipe import Recipe

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["DRAWINGS", "FIGURES_8_16", "FIGURE_3", "cost_of_a_square", "representative"]

LEPTOKURTIC = "a leptokurtic prior fits better after a turn by 45°"
PLATYKURTIC = "a platykurtic prior fits better along the axes"
BIMODAL = "MIG after training is bimodal: a model disentangles well or it does not"
UNIFORM = 5 / 9
"""The bimodality coefficient of a uniform distribution; two modes have more."""
ENOUGH = 8
"""Models of a setting, for a coefficient to say something."""
PICTURED = 3.0
"""The β of the models that are drawn, as in the paper, or else the nearest there is."""
POINTS = 400
PICTURES = "pictures"
THREE = partial(claims, LEPTOKURTIC, PLATYKURTIC)


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


def obtain_3(_: pd.DataFrame) -> pd.DataFrame:
    """Which of two orientations of all positions costs less, for one exponent of each kind."""
    rows = []
    for claim, p, better, other in ((LEPTOKURTIC, 1.0, 45, 0), (PLATYKURTIC, 4.0, 0, 45)):
        one, two = cost_of_a_square(p, better), cost_of_a_square(p, other)
        rows.append(
            comparison(
                claim, f"p = {p:g}, {better}° against {other}°", "E Σ |z|^p", one, two, one < two
            )
        )
    return compared(THREE(), rows)


def plot_3(_: pd.DataFrame, path: Path) -> None:
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


def extend_8_16(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
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


def obtain_8_16(table: pd.DataFrame) -> pd.DataFrame:
    """Sarle's bimodality coefficient of MIG over the seeds of each setting."""
    return compared(claims(BIMODAL), _settings(score_of(table)))


def _settings(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (method, strength), rows in table.groupby(["method", "strength"]):
        if len(rows) >= ENOUGH:
            found = bimodality(rows[MIG].to_numpy(float))
            of = f"{method}, strength {strength:g}, {len(rows)} models"
            yield comparison(BIMODAL, of, "bimodality of MIG", found, UNIFORM, found > UNIFORM)


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


def plot_8_16(table: pd.DataFrame, path: Path) -> None:
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


def verdict_8_16(frame: pd.DataFrame) -> list[str]:
    """In how many settings MIG has two modes, and where the pictures are."""
    return [
        *sentences(frame),
        "Traversals and maps of positions of each method's representative model are in the "
        f"folder {PICTURES} of the study.",
    ]


DRAWINGS = Recipe(
    name="isa-vae/drawings",
    title="Contours of an Lp-nested function, and its tree",
    where="Figures 2 and 4",
    claim="An Lp-nested function is a cascade of norms, which a tree describes.",
    published=partial(
        shown,
        "iso-contours of Equation 6 for p_0 and p_1 of 1, 2 and 9",
        "trees of Equation 6 and of an ISA model",
    ),
)
FIGURE_3 = Recipe(
    name="isa-vae/figure-3",
    title="Which orientation of (x, y) a prior prefers",
    where="Figure 3",
    claim="A leptokurtic prior prefers the diagonals of a square of positions, a platykurtic one "
    "its axes.",
    published=THREE,
    obtain=obtain_3,
    verdict=sentences,
    plot=plot_3,
)
FIGURES_8_16 = Recipe(
    name="isa-vae/figures-8-16",
    title="Latents against factors, and traversals, of representative models",
    where="Figures 8 to 16",
    claim="Reconstructions at the same MIG differ in quality, above all those of the heart.",
    published=partial(claims, BIMODAL),
    studies=SPRITES,
    extend=extend_8_16,
    obtain=obtain_8_16,
    verdict=verdict_8_16,
    plot=plot_8_16,
)
