"""Contact sheets: an overview of a data set on one page, one row per factor."""

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw

from unweave.io.arguments import check_count
from unweave.io.arrays import on_host
from unweave.plots.sheet import MOST_COLUMNS, Row, Sheet, lay_out, pictures_of

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset

__all__ = ["contact_sheet", "traversal"]


def contact_sheet(data: "Dataset", columns: int = 10, seed: int = 0) -> Sheet:
    """Plot an overview of a data set: each row varies one factor, with the others held fixed.

    The other factors have their middle value. Without a grid of factors, all images are random.

    Args:
        data: Any data set.
        columns: Maximum number of images per row (default 10).
        seed: Random seed for sampling images, and for images that are random given their factors.

    Returns:
        An image; save it with `.save("sheet.png")`.
    """
    check_count("columns", columns, 1, MOST_COLUMNS)
    if data.grid is None:
        drawn = data.draw(5 * columns, seed).indices.reshape(5, columns)
        rows = [("" if k else "random images", "", indices) for k, indices in enumerate(drawn)]
    else:
        rows = []
        for axis in data.grid.axes:
            classes, indices = traversal(data, axis.name, columns)
            first, last = (axis.value_text(c) for c in (classes[0], classes[-1]))
            rows.append((f"{axis.name} ({len(axis)})", f"{first} … {last}", indices))
    return lay_out([Row(_pictures(data, chosen, seed), name, note) for name, note, chosen in rows])


def traversal(data: "Dataset", factor: str, columns: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Return evenly spaced classes `[n]` of a factor and the indices of images that have them.

    All other factors have their middle value.
    """
    grid = data.grid
    assert grid is not None
    size = grid.sizes[grid.column(factor)]
    classes = np.unique(np.linspace(0, size - 1, min(columns, size)).round().astype(np.int64))
    factors = np.tile(np.array(grid.sizes) // 2, (len(classes), 1))
    factors[:, grid.column(factor)] = classes
    return classes, grid.index(factors)


def _pictures(data: "Dataset", indices: np.ndarray, seed: int) -> list[Image.Image]:
    if hasattr(data, "curves"):
        return [_plot(curve) for curve in data.curves(indices)]
    return pictures_of(on_host(data.images(indices, seed)))


def _plot(curve: np.ndarray, side: int = 64) -> Image.Image:
    """Draw a curve as a small image; the vertical axis goes from -π to π."""
    picture = Image.new("L", (side, side), "white")
    x = np.linspace(0, side - 1, len(curve))
    y = side / 2 - curve / np.pi * side / 2
    draw = ImageDraw.Draw(picture)
    draw.line([(0, side / 2), (side, side / 2)], fill=210)
    draw.line(list(zip(x.tolist(), y.tolist(), strict=True)), fill=20)
    return picture
