"""Elements that plots share: sizes, fonts, panels, legends and labels."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unweave.plots.figure import Plot

__all__ = [
    "COLUMN",
    "LINE",
    "PAGE",
    "SMALL",
    "TEXT",
    "label_step_axis",
    "legend_above",
    "name_line_ends",
    "panels",
    "plain",
    "spread_out",
    "write_numbers",
]

COLUMN, PAGE = 3.25, 6.75
"""Widths of one column and of a full page of a paper, in inches."""
TEXT, SMALL = 8, 7
"""Font sizes that are legible in print at these widths, in points."""
LINE = 0.055
"""Height of a line of small text as a share of a panel's height."""


def panels(
    rows: int, columns: int, size: tuple[float, float], **options: Any
) -> tuple["Plot", Any]:
    """Create a figure of this size in inches and its axes `[rows, columns]`."""
    from unweave.plots.figure import Plot

    figure = Plot(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for panel in axes.flat:
        panel.tick_params(labelsize=SMALL, length=2, pad=2)
    return figure, axes


def plain(panel: "Axes") -> "Axes":
    """Hide the top and right spines of the axes and return them."""
    panel.spines[["top", "right"]].set_visible(False)
    return panel


def legend_above(figure: "Plot", handles: Sequence[Any], columns: int = 3, **options: Any) -> None:
    """Add one legend above all panels of a figure from `panels`."""
    where: Any = "outside upper center"
    figure.legend(
        handles=handles, loc=where, ncols=columns, fontsize=SMALL, frameon=False, **options
    )


def spread_out(heights: Sequence[float], gap: float) -> list[float]:
    """Move increasing heights up until neighbours are at least `gap` apart.

    Example:
        >>> spread_out([0.0, 0.5, 10.0], 1.0)
        [0.0, 1.0, 10.0]
    """
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    return placed


def label_step_axis(panel: "Axes") -> None:
    """Label the horizontal axis as training steps."""
    panel.set_xlabel("step", fontsize=TEXT)
    panel.xaxis.set_major_formatter("{x:,.0f}")


def name_line_ends(
    panel: "Axes", x: float, ends: Sequence[tuple[float, str, str]], gap: float
) -> None:
    """Write the names of lines at their ends, at x, at least `gap` apart.

    `ends` contains heights, names and colours, sorted by increasing height.
    """
    heights = spread_out([height for height, _, _ in ends], gap)
    for (_, name, colour), height in zip(ends, heights, strict=True):
        panel.annotate(
            name,
            (x, height),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=colour,
        )


def write_numbers(
    panel: "Axes", values: np.ndarray, text: Callable[[float], str], dark: np.ndarray
) -> None:
    """Write numbers into the cells of an image, in white on dark cells; skip NaN."""
    for (y, x), value in np.ndenumerate(values):
        if not np.isnan(value):
            ink = "white" if dark[y, x] else "black"
            panel.text(x, y, text(value), ha="center", va="center", fontsize=SMALL, color=ink)
