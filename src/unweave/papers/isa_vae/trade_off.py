"""Figures 5 and 6: disentanglement against reconstruction, by β."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.papers.claims import comparison
from unweave.papers.recipe import RecipeError

__all__ = ["MIG", "STATISTICS", "plot_distribution", "plot_trade_off", "score_of", "wins"]

MIG = "mig of the paper"
SHAPE = "mig_density.gap_0"
"""The gap of dSprites' first factor, its shape, which the paper's MIG leaves out."""
PAIRS = (("isa_vae", "beta_vae"), ("isa_tc_vae", "beta_tc_vae"))
"""Methods that differ by the prior alone."""


def score_of(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the paper's MIG: of densities, on dSprites without the shape."""
    if "mig_density" not in table:
        raise RecipeError("the table has no column 'mig_density'; score the models with it")
    gaps = [name for name in table if name.startswith("mig_density.") and name != SHAPE]
    sprites = table["data"].astype(str).str.contains("dsprites")
    score = table["mig_density"].where(~sprites, table[gaps].mean(axis=1))
    return table.assign(**{MIG: score}).dropna(subset=MIG)


def _best_mean_of_a_method(rows: pd.DataFrame, column: str) -> float:
    return float(rows.groupby("method")[column].mean().max())


def _advantage_over_beta_vae(rows: pd.DataFrame, column: str) -> float:
    means = rows.groupby("method")[column].mean()
    own, other = (means.get(name, np.nan) for name in PAIRS[0])
    return float(own - other)


STATISTICS = {
    "advantage_over_beta_vae": _advantage_over_beta_vae,
    "best_mean_of_a_method": _best_mean_of_a_method,
}


def wins(table: pd.DataFrame, texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Pairs of methods at each β, and models above the best mean of the prior's own method."""
    means = table.groupby(["method", "strength"], as_index=False)[[MIG, "reconstruction"]].mean()
    for pair in PAIRS:
        yield from _wins(means, *pair, texts["both"])
        yield from _poor(means, *pair, texts["poor"])


def _at_one(table: pd.DataFrame, method: str) -> pd.DataFrame:
    return table[(table["method"] == method) & (table["strength"] == 1)]


def _wins(means: pd.DataFrame, own: str, other: str, claim: str) -> Iterator[dict[str, Any]]:
    """At each β: whether the prior makes both numbers better."""
    for beta in sorted(means["strength"].unique()):
        rows = [
            means[(means["method"] == name) & (means["strength"] == beta)] for name in (own, other)
        ]
        if all(len(each) for each in rows):
            (ours, theirs) = (each.iloc[0] for each in rows)
            wins = ours[MIG] > theirs[MIG] and ours["reconstruction"] < theirs["reconstruction"]
            of = f"{own} against {other}, β = {beta:g}"
            yield comparison(claim, of, MIG, float(ours[MIG]), float(theirs[MIG]), wins)


def _poor(means: pd.DataFrame, own: str, other: str, claim: str) -> Iterator[dict[str, Any]]:
    """Settings of the baseline above the best of the prior: they should reconstruct worse."""
    ours, theirs = (means[means["method"] == name] for name in (own, other))
    if ours.empty or theirs.empty:
        return
    best = ours.loc[ours[MIG].idxmax()]
    for row in theirs[theirs[MIG] > best[MIG]].itertuples():
        error, usual = float(row.reconstruction), float(best["reconstruction"])
        of = f"{other}, β = {row.strength:g}, above the best {own}"
        yield comparison(claim, of, "reconstruction error", error, usual, error > usual)


def plot_distribution(table: pd.DataFrame, path: Path) -> None:
    """MIG at β = 1 over seeds: every model a point, quartiles a box."""
    from unweave.plots.colours import palette
    from unweave.plots.plot import COLUMN, TEXT, panels, plain

    scored = score_of(table)
    figure, axes = panels(1, 1, (COLUMN, 2.4))
    panel = plain(axes[0, 0])
    for place, (method, colour) in enumerate(zip(PAIRS[0][::-1], palette(2), strict=True)):
        values = _at_one(scored, method)[MIG]
        panel.boxplot([values], positions=[place], widths=0.5, showfliers=False)
        spread = np.linspace(-0.15, 0.15, max(len(values), 1))[: len(values)]
        panel.plot(place + spread, values, ".", color=colour, alpha=0.7)
    panel.set_xticks([0, 1], [f"VAE, n = {len(_at_one(scored, 'beta_vae'))}", "ISA-VAE"])
    panel.set_ylabel("MIG", fontsize=TEXT)
    figure.save(path)


def plot_trade_off(table: pd.DataFrame, path: Path) -> None:
    """Means over seeds, a line per method."""
    from unweave.plots.two_scores import trade_off

    scored = score_of(table).drop(columns="mig", errors="ignore").rename(columns={MIG: "mig"})
    trade_off(scored).save(path)
