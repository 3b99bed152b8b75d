"""Figures drawn with matplotlib: their sizes, their letters, and how they are saved.

Imported when something is drawn, since matplotlib takes its time.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unweave.plots.saving import save_figure

__all__ = [
    "COLUMN",
    "LINE",
    "PAGE",
    "SMALL",
    "TEXT",
    "Plot",
    "apart",
    "legend_above",
    "panels",
    "plain",
]

COLUMN, PAGE = 3.25, 6.75
"""Inches: a column of a paper, and its full width."""
TEXT, SMALL = 8, 7
"""Points: what can be read in print at these widths."""
LINE = 0.055
"""The share of a panel's height that a small line of text takes."""


class Plot(Figure):
    """A matplotlib figure with `save`, as every picture has it."""

    def save(self, path: str | Path) -> None:
        """Write it as `.png` or, with text that stays text, as `.svg`; whole or not at all."""
        save_figure(self, path)

    def _repr_png_(self) -> bytes:
        """The picture, for notebooks, which know figures of pyplot alone."""
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=100)
        return picture.getvalue()


def panels(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Plot, Any]:
    """An empty figure and its axes `[rows, columns]`.

    Args:
        rows: How many.
        columns: How many.
        size: Of the whole figure, in inches.
        options: Of matplotlib's `subplots`.
    """
    figure = Plot(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for panel in axes.flat:
        panel.tick_params(labelsize=SMALL, length=2, pad=2)
    return figure, axes


def plain(panel: Axes) -> Axes:
    """The same axes without the lines that say nothing: above and on the right."""
    panel.spines[["top", "right"]].set_visible(False)
    return panel


def legend_above(figure: Figure, handles: Sequence[Any], columns: int = 3, **options: Any) -> None:
    """One legend for all panels, above them.

    Args:
        figure: With a constrained layout, as `panels` makes it.
        handles: What is explained, by its label.
        columns: In which it is set.
        options: Of matplotlib's `legend`.
    """
    where: Any = "outside upper center"
    figure.legend(
        handles=handles, loc=where, ncols=columns, fontsize=SMALL, frameon=False, **options
    )


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Heights that rise, moved up where they are nearer to each other than a gap.

    Example:
        >>> apart([0.0, 0.5, 10.0], 1.0)
        [0.0, 1.0, 10.0]
    """
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    return placed
