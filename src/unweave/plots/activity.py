"""How active each latent is in the members of an ensemble: log Δ and the variance of means."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.activity import NOISE
from unweave.plots.colours import GREY, ONE_HUE, PALETTE
from unweave.plots.drawn_codes import check_data
from unweave.select.activity import ALL, ROWS, member_activity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unweave.data.dataset import Dataset
    from unweave.models.model import Model
    from unweave.plots.plot import Plot

__all__ = ["activity"]

HEIGHT, CELL = 1.35, 0.2
"""Inches: of a panel, and of a group's row."""
DARK = 0.6
"""The colour, from 0 to 1, from which numbers on it are white."""


def activity(
    model: "Model",
    data: "Dataset",
    *,
    by: str | int | Any = None,
    rows: int = ROWS,
    seed: int = 0,
) -> "Plot":
    """Draw log Δ of each latent and the variance of its mean, for all members of an ensemble.

    Latents of other members are where those of the first are that their maps say are the same, so
    that members which agree lie on each other; the line joins the members. Far below 0, log Δ says
    that a latent is active, if its mean varies as well: one without that is not in use. Latents of
    smallest log Δ in the first member come first.

    Args:
        model: An ensemble, or any other model that has a prior.
        data: What it was trained on.
        by: Groups of images, see `uw.select.member_activity`; the mean of σ² in the first member
            is then written for each group, dark where a latent is active.
        rows: How many images are encoded.
        seed: Of their draw.

    Returns:
        A matplotlib figure, to be saved with `.save("activity.svg")`.
    """
    from unweave.plots.plot import COLUMN, TEXT, panels, plain

    check_data(model, data)
    found = member_activity(model, data, by=by, rows=rows, seed=seed)
    every = found.table[found.table["group"] == ALL]
    profile = every.pivot_table(index="member", columns="latent", values="log_delta")
    signal = every.pivot_table(index="member", columns="latent", values="signal")
    order = profile.loc[0].sort_values(kind="stable").index
    groups = found.table[(found.table["group"] != ALL) & (found.table["member"] == 0)]
    names = groups["group"].unique()
    heights = [HEIGHT, HEIGHT] + [CELL * len(names)] * (len(names) > 0)
    size = (COLUMN, sum(heights) + 0.75 + 0.35 * (len(names) > 0))
    figure, axes = panels(
        len(heights), 1, size, sharex=True, gridspec_kw={"height_ratios": heights}
    )
    _points(plain(axes[0, 0]), profile[order])
    axes[0, 0].axhline(0, color=GREY, linewidth=0.6, linestyle=":", zorder=0)
    axes[0, 0].set_ylabel("log Δ", fontsize=TEXT)
    _points(plain(axes[1, 0]), signal[order])
    axes[1, 0].set_ylabel("variance of μ", fontsize=TEXT)
    axes[1, 0].set_ylim(bottom=min(0, axes[1, 0].get_ylim()[0]))
    if len(names):
        noise = groups.pivot_table(index="group", columns="latent", values="noise")
        _cells(axes[2, 0], noise.loc[names, order])
        axes[2, 0].set_ylabel(f"σ² by {found.by}", fontsize=TEXT)
    axes[-1, 0].set_xticks(range(len(order)), [str(latent) for latent in order])
    axes[-1, 0].set_xlabel("latent of the first member", fontsize=TEXT)
    _legend(figure, len(profile))
    return figure


def _points(panel: "Axes", values: pd.DataFrame) -> None:
    """A line over the members of each latent, a ring for each, and a dot for the first."""
    for x, column in enumerate(values):
        heights = values[column].to_numpy()
        panel.plot([x, x], [heights.min(), heights.max()], color=PALETTE[0], linewidth=1)
        others = heights[1:]
        panel.scatter(
            [x] * len(others), others, s=20, facecolor="white", edgecolor=PALETTE[0], zorder=2
        )
        panel.scatter([x], heights[:1], s=20, color=PALETTE[0], zorder=3)


def _cells(panel: "Axes", noise: pd.DataFrame) -> None:
    """The noise of each group and latent, less of it darker."""
    from unweave.plots.plot import SMALL

    shade = np.clip(1 - noise.to_numpy() / (2 * NOISE.threshold), 0, 1)
    panel.imshow(shade, cmap=ONE_HUE, vmin=0, vmax=1, aspect="auto")
    for y, x in np.ndindex(*noise.shape):
        colour = "white" if shade[y, x] > DARK else "black"
        text = f"{noise.iloc[y, x]:.2f}"
        panel.text(x, y, text, ha="center", va="center", fontsize=SMALL, color=colour)
    panel.set_yticks(range(len(noise)), [str(name) for name in noise.index])
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)


def _legend(figure: "Plot", members: int) -> None:
    from matplotlib.lines import Line2D

    from unweave.plots.plot import legend_above

    if members == 1:
        return
    dots: dict[str, Any] = {"marker": "o", "markersize": 4.5, "linestyle": ""}
    dots["markeredgecolor"] = PALETTE[0]
    others = "the other member" if members == 2 else f"the other {members - 1} members"
    handles = [
        Line2D([], [], markerfacecolor=PALETTE[0], label="first member", **dots),
        Line2D([], [], markerfacecolor="white", label=others, **dots),
    ]
    legend_above(figure, handles, 2)
