"""Figures 3 and 5 to 16: disentanglement against reconstruction, learned exponents, latents."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.analysis.study_table import require
from unweave.papers.claims import comparison
from unweave.papers.measurements import Trained
from unweave.papers.plots import labelled
from unweave.papers.recipe import RecipeError, published_table

MIG = "mig of the paper"
SHAPE = "mig_density.gap_0"
"""MIG gap of the first factor of dSprites, the shape, which the paper excludes."""
PAIRS = (("isa_vae", "beta_vae"), ("isa_tc_vae", "beta_tc_vae"))
"""Methods that differ only in the prior."""
ENOUGH = 8
"""Smallest number of models per setting for a meaningful bimodality coefficient."""
PICTURED = 3.0
"""β of the models that are drawn, as in the paper; the nearest available β is used."""
POINTS = 400
PICTURES = "pictures"
EXPONENTS = ["p_1", "p_2", "p_3"]
ROOT, START, MOVED = 2.1, 2.0, 0.01
"""p₀, initial value of the other exponents, and distance from it that counts as a change."""


def score_of(table: pd.DataFrame) -> pd.DataFrame:
    """Add the paper's MIG, estimated from densities and, on dSprites, without the shape."""
    require(table, ["mig_density"], "score the models with this metric")
    gaps = [name for name in table if name.startswith("mig_density.") and name != SHAPE]
    sprites = table["data"].astype(str).str.contains("dsprites")
    score = table["mig_density"].where(~sprites, table[gaps].mean(axis=1))
    return table.assign(**{MIG: score}).dropna(subset=MIG)


def _advantage_over_beta_vae(rows: pd.DataFrame, column: str) -> float:
    means = rows.groupby("method")[column].mean()
    own, other = (means.get(name, np.nan) for name in PAIRS[0])
    return float(own - other)


def wins(table: pd.DataFrame, texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Compare pairs of methods at each β, and the baselines with a higher MIG than ISA."""
    means = table.groupby(["method", "strength"], as_index=False)[[MIG, "reconstruction"]].mean()
    for pair in PAIRS:
        yield from _wins(means, *pair, texts["both"])
        yield from _poor(means, *pair, texts["poor"])


def _at_one(table: pd.DataFrame, method: str) -> pd.DataFrame:
    return table[(table["method"] == method) & (table["strength"] == 1)]


def _wins(means: pd.DataFrame, own: str, other: str, claim: str) -> Iterator[dict[str, Any]]:
    """Yield for each β whether the prior improves both MIG and reconstruction."""
    ours, theirs = (means[means["method"] == name] for name in (own, other))
    for row in ours.merge(theirs, on="strength", suffixes=("", "_other")).to_dict("records"):
        mig, reference = row[MIG], row[f"{MIG}_other"]
        wins = mig > reference and row["reconstruction"] < row["reconstruction_other"]
        of = f"{own} against {other}, β = {row['strength']:g}"
        yield comparison(claim, of, MIG, mig, reference, wins)


def _poor(means: pd.DataFrame, own: str, other: str, claim: str) -> Iterator[dict[str, Any]]:
    """Yield baseline settings with a MIG above the best of ISA; they should reconstruct worse."""
    ours, theirs = (means[means["method"] == name] for name in (own, other))
    if ours.empty or theirs.empty:
        return
    best = ours.loc[ours[MIG].idxmax()]
    for row in theirs[theirs[MIG] > best[MIG]].itertuples():
        error, reference = float(row.reconstruction), float(best["reconstruction"])
        of = f"{other}, β = {row.strength:g}, above the best {own}"
        yield comparison(claim, of, "reconstruction error", error, reference, error > reference)


def plot_distribution(table: pd.DataFrame, path: Path) -> None:
    """Draw the MIG at β = 1 over seeds: a point per model, a box of quartiles."""
    from unweave.plots.colours import palette
    from unweave.plots.plot import COLUMN, panels, plain

    scored = score_of(table)
    figure, axes = panels(1, 1, (COLUMN, 2.4))
    panel = labelled(plain(axes[0, 0]), y="MIG")
    for place, (method, colour) in enumerate(zip(PAIRS[0][::-1], palette(2), strict=True)):
        values = _at_one(scored, method)[MIG]
        panel.boxplot([values], positions=[place], widths=0.5, showfliers=False)
        spread = np.linspace(-0.15, 0.15, max(len(values), 1))[: len(values)]
        panel.plot(place + spread, values, ".", color=colour, alpha=0.7)
    panel.set_xticks([0, 1], [f"VAE, n = {len(_at_one(scored, 'beta_vae'))}", "ISA-VAE"])
    figure.save(path)


def plot_trade_off(table: pd.DataFrame, path: Path) -> None:
    """Draw means over seeds, with a line per method."""
    from unweave.plots.two_scores import trade_off

    scored = score_of(table).drop(columns="mig", errors="ignore").rename(columns={MIG: "mig"})
    trade_off(scored).save(path)


def sorted_exponents(table: pd.DataFrame) -> np.ndarray:
    """Sorted learned exponents of the three subspaces of each model, `[models, 3]`."""
    require(table, EXPONENTS, "train isa_vae with learned exponents and ten latents")
    learned = table[EXPONENTS].dropna()
    if learned.empty:
        raise RecipeError(
            "no model in the table has learned exponents; finish the study first",
            subject="models",
            value=0,
        )
    return np.sort(learned.to_numpy(float), axis=1)


def obtain_7(table: pd.DataFrame) -> pd.DataFrame:
    """Mode of a smoothed density of each exponent over models, and their spread."""
    values = sorted_exponents(table)
    return published_table(__package__, "figure-7").assign(
        obtained=[_peak(each) for each in values.T],
        spread=values.std(0),
        models=len(values),
        left_start=[float((np.abs(each - START) > MOVED).mean()) for each in values.T],
    )


def _peak(values: np.ndarray) -> float:
    """Mode of a kernel density estimate of the values, with Silverman's bandwidth."""
    from scipy.stats import gaussian_kde

    if len(np.unique(values)) < 2:
        return float(np.mean(values))
    places = np.linspace(values.min(), values.max(), 501)
    return float(places[gaussian_kde(values, "silverman")(places).argmax()])


def plot_7(table: pd.DataFrame, path: Path) -> None:
    """Draw a histogram of each exponent."""
    from unweave.plots.exponents import histogram

    histogram({"4,2x3": sorted_exponents(table)}, [ROOT], [START]).save(path)


def cost_of_a_square(p: float, degrees: float) -> float:
    """E |z_1|^p + |z_2|^p of a rotated uniform square [-1, 1]²: its cost under a prior.

    Example:
        >>> round(cost_of_a_square(1.0, 0), 3), round(cost_of_a_square(1.0, 45), 3)
        (1.0, 0.943)
    """
    places = (np.arange(POINTS) + 0.5) / POINTS * 2 - 1
    x, y = np.meshgrid(places, places)
    angle = np.deg2rad(degrees)
    rotated = np.cos(angle) * x - np.sin(angle) * y, np.sin(angle) * x + np.cos(angle) * y
    return float(sum((np.abs(z) ** p).mean() for z in rotated))


def costs(_: pd.DataFrame) -> pd.DataFrame:
    """Costs with two exponents along the axes, and after a rotation by 45°."""
    rows = [(p, degrees, cost_of_a_square(p, degrees)) for p in (1.0, 4.0) for degrees in (0, 45)]
    return pd.DataFrame(rows, columns=["p", "degrees", "cost"])


def plot_costs(_: pd.DataFrame, path: Path) -> None:
    """Draw the cost by angle for a few exponents, relative to the cost along the axes."""
    from unweave.plots.colours import palette
    from unweave.plots.plot import COLUMN, SMALL, panels, plain

    figure, axes = panels(1, 1, (COLUMN, 2.2))
    x = "rotation of the square of positions [°]"
    panel = labelled(plain(axes[0, 0]), x=x, y="relative cost")
    angles, exponents = np.linspace(0, 90, 37), (1.0, 1.5, 2.0, 2.5, 4.0)
    for p, colour in zip(exponents, palette(len(exponents)), strict=True):
        cost = np.array([cost_of_a_square(p, angle) for angle in angles])
        panel.plot(angles, cost / cost[0], color=colour, label=f"p = {p:g}", linewidth=1.2)
    panel.legend(frameon=False, fontsize=SMALL)
    figure.save(path)


def representative(table: pd.DataFrame) -> str:
    """Select the representative run of a setting, as in the paper.

    Among the half with the larger MIG, this is the run whose MIG and reconstruction are nearest to
    their mean in Mahalanobis distance.
    """
    upper = table[table[MIG] >= table[MIG].median()]
    values = upper[[MIG, "reconstruction"]].to_numpy(float)
    apart = values - values.mean(0)
    weight = np.linalg.pinv(np.cov(apart.T)) if len(values) > 2 else np.eye(2)
    return str(upper["run"].iloc[np.einsum("ni,ij,nj->n", apart, weight, apart).argmin()])


def extend_8_16(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Draw traversals and position maps of representative models; return the table unchanged."""
    from unweave.plots import position_maps, traversals

    trained = Trained(folder)
    scored = score_of(table[table["state"] == "scored"])
    for method, rows in scored.groupby("method"):
        nearest = (rows["strength"] - PICTURED).abs()
        run = representative(rows[nearest == nearest.min()])
        model = trained.model(run)
        data, place = trained.data(model), folder / PICTURES
        place.mkdir(exist_ok=True)
        traversals(model, data, columns=7, reach=2.0).save(place / f"{method}-traversals.png")
        position_maps(model, data).save(place / f"{method}-positions.svg")
    return table


def prepare_8_16(table: pd.DataFrame) -> pd.DataFrame:
    """Models of settings with enough models for a meaningful bimodality coefficient."""
    scored = score_of(table)
    return scored[scored.groupby(["method", "strength"])[MIG].transform("size") >= ENOUGH]


def bimodality(values: np.ndarray) -> float:
    """Sarle's coefficient, (skewness² + 1) / kurtosis, corrected for the number of values.

    Example:
        >>> round(bimodality(np.array([0.0] * 50 + [1.0] * 50)), 2)
        0.95
    """
    from scipy.stats import kurtosis, skew

    n = len(values)
    if np.ptp(values) == 0:
        return np.nan
    excess = kurtosis(values, bias=False) + 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))
    return float((skew(values, bias=False) ** 2 + 1) / excess)


STATISTICS = {
    "advantage_over_beta_vae": _advantage_over_beta_vae,
    "bimodality": lambda rows, column: bimodality(rows[column].to_numpy(float)),
}


def plot_8_16(table: pd.DataFrame, path: Path) -> None:
    """Draw histograms of the MIG of all models, by method; a bimodal MIG has two peaks."""
    from unweave.plots.colours import palette
    from unweave.plots.plot import COLUMN, SMALL, panels, plain

    scored = score_of(table)
    methods = scored["method"].unique().tolist()
    figure, axes = panels(1, 1, (COLUMN, 2.2))
    panel = labelled(plain(axes[0, 0]), x="MIG", y="models")
    edges = np.histogram_bin_edges(scored[MIG], 30).tolist()
    for method, colour in zip(methods, palette(len(methods)), strict=True):
        values = scored[scored["method"] == method][MIG]
        panel.hist(values, edges, color=colour, histtype="step", label=method)
    panel.legend(frameon=False, fontsize=SMALL)
    figure.save(path)
