"""Plots that the recipes of this paper share: a panel per data set and measure."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

__all__ = ["bars", "lines", "pictures"]

HEIGHT = 2.3


def lines(
    table: pd.DataFrame,
    x: str,
    panels_of: Sequence[Mapping[str, str]],
    path: Path,
    label: str = "β",
    by: str = "",
) -> None:
    """Means over seeds, a row of panels per data set.

    Args:
        table: One row per model.
        x: The column along which lines go.
        panels_of: For each panel the columns that it shows, and what they are called.
        path: The file.
        label: Of the axis.
        by: A column of kinds, each of which has a line of its own.
    """
    from unweave.plots.colours import palette
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels, plain

    parts = list(table.groupby("data", sort=False))
    figure, axes = panels(len(parts), len(panels_of), (PAGE, HEIGHT * len(parts)))
    kinds = list(dict.fromkeys(table[by])) if by else [""]
    for (data, part), line in zip(parts, axes, strict=True):
        for columns, axis in zip(panels_of, line, strict=True):
            panel = plain(axis)
            known = {name: word for name, word in columns.items() if name in part}
            colours = iter(palette(max(1, len(known) * len(kinds))))
            for kind in kinds:
                rows = part[part[by] == kind] if by else part
                means = rows.groupby(x)[list(known)].mean()
                for name, word in known.items():
                    said = kind if by and len(known) == 1 else f"{kind} {word}".strip()
                    panel.plot(
                        means.index, means[name], "o-", color=next(colours), label=said, ms=3
                    )
            panel.set_xlabel(label, fontsize=TEXT)
            panel.set_title(f"{data}: {', '.join(known.values())}", fontsize=TEXT)
            panel.legend(fontsize=SMALL, frameon=False)
    figure.save(path)


def bars(table: pd.DataFrame, by: str, columns: Mapping[str, str], path: Path) -> None:
    """Means over seeds, a panel per measure and a bar per kind of model."""
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


def pictures(files: Sequence[Path], path: Path) -> None:
    """Pictures that were drawn already, one below the other."""
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
