"""All experiments on linear autoencoders and linear PCL: tables, summary and figure."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.papers.inductive_biases.theory.linear_pcl import MOMENTS, contrastive
from unweave.papers.inductive_biases.theory.pca_alignment import (
    linear_autoencoders,
    modified_data,
    predicted_rotation,
    rotations,
)
from unweave.papers.plots import labelled
from unweave.plots.colours import FAINT, MARKERS, PALETTE

if TYPE_CHECKING:
    from unweave.plots.figure import Plot

__all__ = ["draw_alignment", "run_experiments", "summary"]

KINDS = {"vae": "VAE", "equal": "VAE, equal\nvariances", "autoencoder": "auto-\nencoder"}

PREDICTED = {
    "vae": ("linear VAE, with principal axes", "1", "principal"),
    "equal": ("linear VAE, equal variances, with factors", "below 1: no axes", "factors"),
    "autoencoder": ("linear autoencoder, with principal axes", "below 1: any basis", "principal"),
}
"""What is matched, the theoretical prediction, and the column, by kind of autoencoder."""


def run_experiments(seeds: Sequence[int], moments: int = MOMENTS) -> dict[str, pd.DataFrame]:
    """Run all four experiments once per seed; return their tables by name."""
    rotated = [rotations(seeds, fixed=fixed).assign(fixed=fixed) for fixed in (False, True)]
    return {
        "rotations": pd.concat(rotated, ignore_index=True),
        "autoencoders": linear_autoencoders(seeds),
        "modified-data": modified_data(seeds=seeds),
        "contrastive": contrastive(seeds=seeds, count=moments),
    }


def summary(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Summarise `what` is matched, the prediction of `theory`, and the `obtained` range."""
    rotated, autoencoders, modified, contrasted = tables.values()
    rows = [
        ("best rotation, with principal axes", "1", rotated["alignment"]),
        ("its loss, as a share of the bound", "1", rotated["loss"] / rotated["bound"]),
    ]
    for kind, (what, theory, column) in PREDICTED.items():
        rows.append((what, theory, autoencoders.loc[autoencoders["kind"] == kind, column]))
    for delta, own in modified.groupby("delta"):
        what = f"linear VAE, modified by δ = {delta:g}, with factors"
        rows.append((what, _cosine(delta), own["factors"]))
    for delta, own in contrasted.groupby("delta"):
        what = f"principal components, δ = {delta:g}, with factors"
        rows.append((f"linear PCL, δ = {delta:g}, with factors", "1", own["pcl"]))
        rows.append((what, _cosine(delta), own["pca"]))
    listed = [(what, theory, _range(values)) for what, theory, values in rows]
    return pd.DataFrame(listed, columns=["what", "theory", "obtained"])


def _cosine(delta: Any) -> str:
    return f"cos θ = {math.cos(predicted_rotation(delta)):.3f}"


def _range(values: "pd.Series[float]") -> str:
    low, high = f"{values.min():.4f}", f"{values.max():.4f}"
    return low if low == high else f"{low} – {high}"


def draw_alignment(
    autoencoders: pd.DataFrame, modified: pd.DataFrame, contrasted: pd.DataFrame
) -> "Plot":
    """Draw the match of latents with principal axes and with factors, one dot per run."""
    from unweave.plots.plot import PAGE, SMALL, panels, plain

    figure, axes = panels(1, 3, (PAGE, 2.5), sharey=True)
    left, middle, right = map(plain, axes[0])
    for place, kind in enumerate(KINDS):
        own = autoencoders.loc[autoencoders["kind"] == kind, "factors"]
        _dots(left, np.full(len(own), place), own, 1)
    left.set_xticks(range(len(KINDS)), list(KINDS.values()))
    left.set_xlim(-0.5, len(KINDS) - 0.5)
    labelled(left, "linear autoencoders, with factors", y="smallest |match|")

    deltas = np.linspace(0, modified["delta"].max(), 101)
    theory = np.cos([predicted_rotation(delta) for delta in deltas])
    middle.plot(deltas, theory, color=FAINT, linewidth=1, label="cos θ")
    _dots(middle, modified["delta"], modified["factors"], 1, "with factors")
    _dots(middle, modified["delta"], modified["principal"], 0, "with principal axes")
    _dots(right, contrasted["delta"], contrasted["pca"], 3, "principal components", size=40)
    _dots(right, contrasted["delta"], contrasted["pcl"], 2, "linear PCL")
    labelled(middle, "linear VAE, modified data", "size δ of the modification")
    labelled(right, "with factors, sources in time", "size δ of the modification")
    for panel in (middle, right):
        panel.legend(fontsize=SMALL, frameon=False, loc="lower left")
    left.set_ylim(0.2, 1.03)
    return figure


def _dots(
    panel: Any, x: Any, y: Any, kind: int, label: str | None = None, size: float = 14
) -> None:
    style = {"color": PALETTE[kind], "marker": MARKERS[kind], "label": label}
    panel.scatter(x, y, s=size, zorder=3, **style)
