"""The figure of MS-FLOW: images and what both stages make of them, and log densities."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.plots.colours import FAINT, palette

if TYPE_CHECKING:
    from unweave.plots.plot import Plot

__all__ = ["draw_flow"]


def draw_flow(
    pictures: Mapping[str, np.ndarray], histories: pd.DataFrame, mixture: float
) -> "Plot":
    """Draw rows of images on the left, log densities of held-out images on the right.

    Args:
        pictures: By name, images `[n, H, W]` of a row.
        histories: As `MsFlow.history`, of every `condition`.
        mixture: The log density of the mixture alone.
    """
    from unweave.plots.plot import PAGE, SMALL, Plot, plain

    figure = Plot(figsize=(PAGE, 2.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_pictures(left, pictures)
    plain(right).tick_params(labelsize=SMALL, length=2, pad=2)
    names = list(histories["condition"].unique())
    for name, colour in zip(names, palette(len(names)), strict=True):
        rows = histories[histories["condition"] == name]
        right.plot(rows["step"], rows["held_out"], color=colour, linewidth=1, label=name)
        right.plot(rows["step"], rows["training"], color=colour, linewidth=1, linestyle="--")
    right.axhline(mixture, color=FAINT, linewidth=0.8, linestyle=":", label="mixture alone")
    right.plot([], [], color=FAINT, linewidth=1, linestyle="--", label="in training, by batch")
    right.set_xlabel("step", fontsize=SMALL)
    right.set_ylabel("log density, nats", fontsize=SMALL)
    # Above the mixture's line, below the curves.
    right.legend(fontsize=SMALL, frameon=False, loc="lower right", bbox_to_anchor=(1, 0.1))
    return figure


def _draw_pictures(panel: Any, pictures: Mapping[str, np.ndarray]) -> None:
    from unweave.plots.plot import SMALL

    rows = [np.concatenate(list(images), 1) for images in pictures.values()]
    panel.imshow(np.concatenate(rows), cmap="gray_r", vmin=0, vmax=255)
    height = len(rows[0])
    panel.set_yticks([height * (k + 0.5) for k in range(len(rows))], list(pictures))
    panel.set_xticks([])
    panel.tick_params(labelsize=SMALL, length=0)
    panel.spines[:].set_visible(False)
