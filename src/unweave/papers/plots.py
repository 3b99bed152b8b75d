"""Plots shared by recipes: line panels, bar charts, error bars and stacked pictures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["Panel", "bars", "draw_lines", "grouped_bars", "lines", "pictures", "points"]

HEIGHT = 2.3
MOST_TICKS = 8
"""Largest number of distinct x values that are all shown as ticks."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A plot of column means against another column, with a line for each column or kind.

    Args:
        rows: Rows of a table.
        x: Column on the x axis.
        columns: Labels of the columns to plot, by column.
        by: Column of kinds; each kind gets its own line.
        title: Title of the panel.
        xlabel: Label of the x axis (default: `x`).
        ylabel: Label of the y axis.
        kinds: Kinds in the order to plot (default: order of appearance).
    """

    rows: pd.DataFrame
    x: str
    columns: Mapping[str, str]
    by: str = ""
    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    kinds: Sequence[Any] = field(default=())

    def lines(self) -> Iterable[tuple[str, "pd.Series[float]", "pd.Series[float]"]]:
        """Yield the label, means and standard deviations of each line."""
        known = {name: word for name, word in self.columns.items() if name in self.rows}
        kinds = list(self.kinds) or list(dict.fromkeys(self.rows[self.by])) if self.by else [""]
        for kind in kinds:
            part = self.rows[self.rows[self.by] == kind] if self.by else self.rows
            for name, word in known.items():
                groups = part.groupby(self.x)[name]
                label = str(kind) if self.by and len(known) == 1 else f"{kind} {word}".strip()
                yield label, groups.mean(), groups.std(ddof=0)


def draw_lines(
    grid: Sequence[Sequence[Panel]],
    path: Path,
    height: float = HEIGHT,
    spread: str = "",
    **options: Any,
) -> None:
    """Draw a grid of panels.

    Args:
        grid: Rows of panels.
        path: Output file.
        height: Height of a row, in inches.
        spread: How standard deviations are shown: `bars`, `band` or not at all (default).
        options: Arguments of matplotlib's `subplots`.
    """
    from unweave.plots.colours import MARKERS, palette
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels, plain

    figure, axes = panels(len(grid), len(grid[0]), (PAGE, height * len(grid)), **options)
    for line, row in zip(axes, grid, strict=True):
        for axis, one in zip(line, row, strict=True):
            panel, found = plain(axis), list(one.lines())
            style: Any
            for place, (label, mean, deviation) in enumerate(found):
                style = {"color": palette(max(len(found), 1))[place], "label": label, "ms": 3}
                if spread == "bars":
                    mark = f"{MARKERS[place % len(MARKERS)]}-"
                    panel.errorbar(mean.index + 0.05 * place, mean, deviation, fmt=mark, **style)
                elif spread == "band":
                    panel.plot(mean.index, mean, **style)
                    low, high = mean - deviation, mean + deviation
                    panel.fill_between(mean.index, low, high, color=style["color"], alpha=0.2)
                    panel.set_ylim(bottom=0)
                else:
                    panel.plot(mean.index, mean, "o-", **style)
            places = sorted({x for _, mean, _ in found for x in mean.index})
            if 0 < len(places) <= MOST_TICKS:
                panel.set_xticks(places, [f"{x:g}" for x in places])
            panel.set_xlabel(one.xlabel or one.x, fontsize=TEXT)
            panel.set_ylabel(one.ylabel, fontsize=TEXT)
            panel.set_title(one.title, fontsize=TEXT)
            panel.legend(fontsize=SMALL, frameon=False)
    figure.save(path)


def lines(
    table: pd.DataFrame,
    x: str,
    panels_of: Sequence[Mapping[str, str]],
    path: Path,
    label: str = "β",
    by: str = "",
) -> None:
    """Plot means over seeds, with a row of panels per data set.

    Args:
        table: Table with one row per model.
        x: Column on the x axis.
        panels_of: For each panel, labels of the columns to plot, by column.
        path: Output file.
        label: Label of the x axis.
        by: Column of kinds; each kind gets its own line.
    """
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
            for columns in panels_of
        ]
        for data, part in table.groupby("data", sort=False)
    ]
    draw_lines(grid, path)


def bars(table: pd.DataFrame, by: str, columns: Mapping[str, str], path: Path) -> None:
    """Plot means over seeds, with a panel per measure and a bar per kind of model."""
    from unweave.plots.colours import palette
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels, plain

    parts = list(table.groupby("data", sort=False))
    known = {name: word for name, word in columns.items() if name in table}
    figure, axes = panels(len(parts), len(known), (PAGE, HEIGHT * len(parts)))
    for (data, part), line in zip(parts, axes, strict=True):
        for (name, word), axis in zip(known.items(), line, strict=True):
            panel, means = plain(axis), part.groupby(by)[name].mean().dropna()
            panel.bar(range(len(means)), means, color=palette(len(means)))
            panel.set_xticks(range(len(means)), means.index, fontsize=SMALL, rotation=30)
            panel.set_title(f"{data}: {word}", fontsize=TEXT)
    figure.save(path)


def grouped_bars(
    parts: Mapping[str, pd.DataFrame], value: str, by: str, kind: str, path: Path
) -> None:
    """Plot means of a column, with a panel per table, grouped bars and a point per row.

    Args:
        parts: Tables by panel title.
        value: Column to plot.
        by: Column that defines the groups.
        kind: Column that defines the bars within a group.
        path: Output file.
    """
    from unweave.plots.colours import palette
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels, plain

    figure, axes = panels(1, max(1, len(parts)), (PAGE, HEIGHT))
    for (title, rows), axis in zip(parts.items(), axes[0], strict=False):
        panel, groups = plain(axis), list(dict.fromkeys(rows[by]))
        kinds = list(dict.fromkeys(rows[kind]))
        width = 0.8 / max(1, len(kinds))
        for place, (name, colour) in enumerate(zip(kinds, palette(len(kinds)), strict=True)):
            of_kind = rows[rows[kind] == name]
            left = of_kind[by].map(groups.index) + (place - (len(kinds) - 1) / 2) * width
            means = of_kind.groupby(left)[value].mean()
            panel.bar(means.index, means, 0.9 * width, color=colour, label=str(name), alpha=0.6)
            panel.plot(left, of_kind[value], ".", color=colour, ms=3)
        panel.set_xticks(range(len(groups)), list(map(str, groups)), fontsize=SMALL, rotation=20)
        panel.set_title(title, fontsize=TEXT)
        panel.legend(fontsize=SMALL, frameon=False)
    figure.save(path)


def points(
    rows: Sequence[Sequence[tuple[str, Mapping[str, pd.DataFrame]]]],
    path: Path,
    height: float,
    usual: Mapping[str, float] | None = None,
) -> None:
    """Plot means and deviations of unordered categories, with a panel per measure.

    Args:
        rows: Grid of panels, each a label and named tables of `mean` and `deviation`, indexed by
            category.
        path: Output file.
        height: Height of a panel, in inches.
        usual: Reference values to mark with a dotted line, by label.
    """
    from unweave.plots.colours import GREY, palette
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels, plain

    size = (PAGE, height * len(rows))
    figure, axes = panels(len(rows), len(rows[0]), size, sharex=True)
    for line, row in zip(axes, rows, strict=True):
        for axis, (label, series) in zip(line, row, strict=True):
            panel, names = (
                plain(axis),
                list(dict.fromkeys(n for t in series.values() for n in t.index)),
            )
            for place, (name, found) in enumerate(series.items()):
                x = [
                    names.index(one) + 0.24 * (place - (len(series) - 1) / 2)
                    for one in found.index
                ]
                style: Any = {"color": palette(len(series))[place], "label": name, "ms": 4}
                panel.errorbar(x, found["mean"], found["deviation"], fmt="o", **style)
            if label in (usual or {}):
                panel.axhline((usual or {})[label], color=GREY, linewidth=0.6, linestyle=":")
            panel.set_ylim(bottom=0)
            panel.set_ylabel(label, fontsize=TEXT)
            panel.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=SMALL)
            panel.legend(frameon=False, fontsize=SMALL)
    figure.save(path)


def pictures(files: Sequence[Path], path: Path) -> None:
    """Stack existing picture files vertically."""
    from PIL import Image

    from unweave.plots.plot import PAGE, panels

    images = [Image.open(file).convert("RGB") for file in files]
    height = sum(PAGE * image.height / image.width for image in images)
    ratios = [image.height / image.width for image in images]
    figure, axes = panels(len(images), 1, (PAGE, height), height_ratios=ratios)
    for image, (panel,) in zip(images, axes, strict=True):
        panel.imshow(image)
        panel.set_axis_off()
    figure.save(path)
