"""The figure of what linear autoencoders and linear PCL find, on data and on modified data."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.papers.inductive_biases.theory.pca_alignment import predicted_rotation
from unweave.plots.colours import FAINT, MARKERS, PALETTE

if TYPE_CHECKING:
    from unweave.plots.plot import Plot

__all__ = ["draw_alignment"]

KINDS = {"vae": "VAE", "equal": "VAE, equal\nvariances", "autoencoder": "auto-\nencoder"}


def draw_alignment(
    autoencoders: pd.DataFrame, modified: pd.DataFrame, contrasted: pd.DataFrame
) -> "Plot":
    """Draw what is found against principal axes and factors; a dot is a run.

    Args:
        autoencoders: Of `pca_alignment.linear_autoencoders`.
        modified: Of `pca_alignment.modified_data`.
        contrasted: Of `linear_pcl.contrastive`.
    """
    from unweave.plots.plot import PAGE, TEXT, panels, plain

    figure, axes = panels(1, 3, (PAGE, 2.5), sharey=True)
    left, middle, right = map(plain, axes[0])
    for place, kind in enumerate(KINDS):
        own = autoencoders.loc[autoencoders["kind"] == kind, "factors"]
        _dots(left, np.full(len(own), place), own, 1)
    left.set_xticks(range(len(KINDS)), list(KINDS.values()))
    left.set_xlim(-0.5, len(KINDS) - 0.5)
    left.set_ylabel("smallest |match|", fontsize=TEXT)
    left.set_title("linear autoencoders, with factors", fontsize=TEXT)

    deltas = np.linspace(0, modified["delta"].max(), 101)
    theory = np.cos([predicted_rotation(delta) for delta in deltas])
    middle.plot(deltas, theory, color=FAINT, linewidth=1, label="cos θ")
    _dots(middle, modified["delta"], modified["factors"], 1, "with factors")
    _dots(middle, modified["delta"], modified["principal"], 0, "with principal axes")
    middle.set_title("linear VAE, modified data", fontsize=TEXT)

    _dots(right, contrasted["delta"], contrasted["pca"], 3, "principal components", size=40)
    _dots(right, contrasted["delta"], contrasted["pcl"], 2, "linear PCL")
    right.set_title("with factors, sources in time", fontsize=TEXT)
    for panel in (middle, right):
        panel.set_xlabel("size δ of the modification", fontsize=TEXT)
        _legend(panel)
    left.set_ylim(0.2, 1.03)
    return figure


def _dots(
    panel: Any, x: Any, y: Any, kind: int, label: str | None = None, size: float = 14
) -> None:
    style = {"color": PALETTE[kind], "marker": MARKERS[kind], "label": label}
    panel.scatter(x, y, s=size, zorder=3, **style)


def _legend(panel: Any) -> None:
    from unweave.plots.plot import SMALL

    panel.legend(fontsize=SMALL, frameon=False, loc="lower left")
