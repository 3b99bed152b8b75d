"""Plots shared by recipes: grids of panels with lines, bars or points, and stacked pictures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from unweave.plots.figure import Plot

__all__ = ["Panel", "draw", "draw_by_data", "labelled", "pictures"]

HEIGHT = 2.3
MOST_TICKS = 8
"""Largest number of distinct x values that are all shown as ticks."""
TURNED: dict[str, dict[str, Any]] = {
    "points": {"rotation": 60, "ha": "right"},
    "bars": {"rotation": 20},
}
"""Rotation of the names of categories, by style."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A plot of the means of columns against a column `x`, with a series for each column and kind.

    Args:
        rows: Rows of a table.
        x: Column on the x axis: numbers, or names of categories in bars and points.
        columns: Labels of the columns to plot, by column.
        deviations: Columns of standard deviations, by column (default: over rows of the same x).
        by: Column of kinds; each kind gets its own series.
        kinds: Kinds in the order to plot (default: order of appearance).
        title: Title of the panel.
        xlabel: Label of the x axis (default: `x`, or none for categories).
        ylabel: Label of the y axis.
        usual: Reference value, marked by a dotted line.
    """

    rows: pd.DataFrame
    x: str
    columns: Mapping[str, str]
    deviations: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    kinds: Sequence[Any] = ()
    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    usual: float | None = None

    def series(self) -> Iterator[tuple[str, "pd.Series[float]", pd.DataFrame]]:
        """Yield the label of each series, its values by x, and their `mean` and `deviation`."""
        known = {name: word for name, word in self.columns.items() if name in self.rows}
        kinds = list(self.kinds) or list(dict.fromkeys(self.rows[self.by])) if self.by else [""]
        for kind in kinds:
            part = self.rows[self.rows[self.by] == kind] if self.by else self.rows
            for name, word in known.items():
                groups = part.groupby(self.x)
                spread = groups[name].std(ddof=0)
                if name in self.deviations:
                    spread = groups[self.deviations[name]].mean()
                label = str(kind) if self.by and len(known) == 1 else f"{kind} {word}".strip()
                found = pd.DataFrame({"mean": groups[name].mean(), "deviation": spread})
                yield label, part.set_index(self.x)[name], found


def draw(
    grid: Sequence[Sequence[Panel]], style: str = "lines", height: float = HEIGHT, **options: Any
) -> "Plot":
    """Draw a grid of panels.

    Args:
        grid: Rows of panels.
        style: `lines`; lines with deviations as `error bars` or as a `band`; or, for categories,
            `points` with deviations, or `bars` with a dot for each row.
        height: Height of a row, in inches.
        options: Arguments of matplotlib's `subplots`.
    """
    from unweave.plots.plot import PAGE, SMALL, panels, plain

    figure, axes = panels(len(grid), len(grid[0]), (PAGE, height * len(grid)), **options)
    for line, row in zip(axes, grid, strict=True):
        for axis, one in zip(line, row, strict=True):
            drawer = _draw_categories if style in TURNED else _draw_lines
            drawer(plain(axis), one, style)
            x = one.xlabel or ("" if style in TURNED else one.x)
            labelled(axis, one.title, x, one.ylabel)
            if style in ("band", "points"):
                axis.set_ylim(bottom=0)
            if one.by or len(one.columns) > 1 or style != "bars":
                axis.legend(fontsize=SMALL, frameon=False)
    return figure


def labelled(panel: Any, title: str = "", x: str = "", y: str = "") -> Any:
    """Set the title of a panel and the labels of its axes; return the panel."""
    from unweave.plots.plot import TEXT

    panel.set_title(title, fontsize=TEXT)
    panel.set_xlabel(x, fontsize=TEXT)
    panel.set_ylabel(y, fontsize=TEXT)
    return panel


def _draw_lines(panel: Any, one: Panel, style: str) -> None:
    from unweave.plots.colours import MARKERS, palette

    found = list(one.series())
    for place, (label, _, rows) in enumerate(found):
        x, mean, deviation = rows.index, rows["mean"], rows["deviation"]
        shown: Any = {"color": palette(len(found))[place], "label": label, "ms": 3}
        if style == "error bars":
            mark = f"{MARKERS[place % len(MARKERS)]}-"
            panel.errorbar(x + 0.05 * place, mean, deviation, fmt=mark, **shown)
        elif style == "band":
            panel.plot(x, mean, **shown)
            low, high = mean - deviation, mean + deviation
            panel.fill_between(x, low, high, color=shown["color"], alpha=0.2)
        else:
            panel.plot(x, mean, "o-", **shown)
    places = sorted({x for *_, rows in found for x in rows.index})
    if 0 < len(places) <= MOST_TICKS:
        panel.set_xticks(places, [f"{x:g}" for x in places])


def _draw_categories(panel: Any, one: Panel, style: str) -> None:
    from unweave.plots.colours import GREY, palette
    from unweave.plots.plot import SMALL

    found, names = list(one.series()), list(dict.fromkeys(one.rows[one.x]))
    width = (0.8 if style == "bars" else 0.24 * len(found)) / max(1, len(found))
    for place, (label, values, rows) in enumerate(found):
        shown: Any = {"color": palette(len(found))[place], "label": label}
        shift = (place - (len(found) - 1) / 2) * width
        x = [names.index(name) + shift for name in rows.index]
        if style == "points":
            panel.errorbar(x, rows["mean"], rows["deviation"], fmt="o", ms=4, **shown)
        else:
            panel.bar(x, rows["mean"], 0.9 * width, alpha=0.6, **shown)
            dots = [names.index(name) + shift for name in values.index]
            panel.plot(dots, values, ".", color=shown["color"], ms=3)
    if one.usual is not None:
        panel.axhline(one.usual, color=GREY, linewidth=0.6, linestyle=":")
    panel.set_xticks(range(len(names)), list(map(str, names)), fontsize=SMALL, **TURNED[style])


def draw_by_data(
    table: pd.DataFrame,
    path: Path,
    *,
    x: str,
    panels: Sequence[Mapping[str, str]],
    label: str = "",
    by: str = "",
    style: str = "lines",
) -> None:
    """Plot means over seeds, with a row of panels per data set.

    Args:
        table: Table with one row per model.
        path: Output file.
        x: Column on the x axis.
        panels: For each panel, labels of the columns to plot, by column; panels whose columns are
            not in the table are left out.
        label: Label of the x axis.
        by: Column of kinds; each kind gets its own series.
        style: Style of all panels, as in `draw`.
    """
    known = [columns for columns in panels if any(name in table for name in columns)]
    grid = [
        [
            Panel(
                rows=part,
                x=x,
                columns=columns,
                by=by,
                kinds=list(dict.fromkeys(table[by])) if by else (),
                xlabel=label,
                title=f"{data}: {', '.join(w for name, w in columns.items() if name in part)}",
            )
            for columns in known
        ]
        for data, part in table.groupby("data", sort=False)
    ]
    draw(grid, style).save(path)


def pictures(files: Sequence[Path], path: Path) -> None:
    """Stack existing picture files vertically."""
    from PIL import Image

    from unweave.plots.plot import PAGE, panels

    images = [Image.open(file).convert("RGB") for file in files]
    ratios = [image.height / image.width for image in images]
    figure, axes = panels(len(images), 1, (PAGE, PAGE * sum(ratios)), height_ratios=ratios)
    for image, (panel,) in zip(images, axes, strict=True):
        panel.imshow(image)
        panel.set_axis_off()
    figure.save(path)
