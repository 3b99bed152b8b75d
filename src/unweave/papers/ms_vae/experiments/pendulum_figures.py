"""The figure of a trained chain: three traversals, and z against the mass."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from unweave.plots.colours import FAINT, INK, PALETTE, SEQUENTIAL

if TYPE_CHECKING:
    from unweave.plots.plot import Plot

__all__ = ["draw_chain"]

TITLES = {"length": "length L", "damping": "damping b", "z": "z, of masses m"}
DRAWN = 5
"""Curves per traversal."""
NARROW = {"handlelength": 0.8, "columnspacing": 0.8, "handletextpad": 0.3, "borderpad": 0.0}


def draw_chain(curves: pd.DataFrame, codes: pd.DataFrame) -> "Plot":
    """Draw curves that the chain makes over those of the simulator, and z over the mass.

    Args:
        curves: As `traversals` returns them.
        codes: `mass` and `z` of pendulums.
    """
    from unweave.plots.plot import PAGE, SMALL, TEXT, legend_above, panels, plain

    figure, axes = panels(2, 2, (PAGE, 4.2))
    for panel, (factor, title) in zip(axes.flat, TITLES.items(), strict=False):
        _draw_traversal(plain(panel), curves[curves["factor"] == factor])
        panel.set_title(title, fontsize=TEXT)
        panel.set_xlabel("time", fontsize=SMALL)
        panel.set_ylabel("angle", fontsize=SMALL)
    panel = plain(axes[1, 1])
    panel.scatter(codes["mass"], codes["z"], s=5, color=PALETTE[0], alpha=0.5, linewidths=0)
    panel.set_title("z, never told the mass", fontsize=TEXT)
    panel.set_xlabel("mass m", fontsize=SMALL)
    panel.set_ylabel("z", fontsize=SMALL)
    (made,) = axes[0, 0].plot([], [], color=INK, label="made by the chain")
    (true,) = axes[0, 0].plot([], [], color=FAINT, linestyle=":", label="simulated")
    legend_above(figure, [made, true], 2)
    return figure


def _draw_traversal(panel: Any, curves: pd.DataFrame) -> None:
    from matplotlib import colormaps

    from unweave.plots.plot import SMALL

    values = curves["value"].unique()
    chosen = values[[round(k * (len(values) - 1) / (DRAWN - 1)) for k in range(DRAWN)]]
    for place, value in enumerate(chosen):
        rows = curves[curves["value"] == value]
        colour = colormaps[SEQUENTIAL](0.9 * place / (DRAWN - 1))
        panel.plot(rows["time"], rows["angle"], color=colour, linewidth=1, label=f"{value:.2g}")
        panel.plot(rows["time"], rows["simulated"], color=FAINT, linewidth=1, linestyle=":")
    bottom, top = panel.get_ylim()
    panel.set_ylim(bottom, top + 0.15 * (top - bottom))  # room for the legend
    panel.legend(fontsize=SMALL, frameon=False, ncols=DRAWN, loc="upper right", **NARROW)
