"""Maps of mean codes over two factors, such as positions, and plots along the other factors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.errors import DataError
from unweave.plots.colours import FAINT, INK, MARKERS, SEQUENTIAL, palette
from unweave.plots.drawn_codes import DrawnCodes, draw_codes
from unweave.plots.plot import COLUMN, PAGE, SMALL, TEXT, legend_above, panels, plain
from unweave.plots.traversals import Inactive, chosen_latents

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unweave.data.dataset import Dataset
    from unweave.data.grid import Factor, Grid
    from unweave.models.model import Model
    from unweave.plots.figure import Plot

__all__ = ["mean_codes", "position_maps"]

ROWS = 60_000
"""Maximum number of images to encode; for larger grids the means are estimates."""
POSITIONS = (("posX", "posY"), ("x", "y"), ("horizontal", "vertical"), ("azimuth", "elevation"))
FEW = 8


@dataclass(frozen=True, eq=False)
class _Layout:
    """Placement of the factors: two on the map, one by colour, the others in columns."""

    across: int
    down: int
    colour: int | None
    others: list[int]


def position_maps(
    model: "Model",
    data: "Dataset",
    factors: tuple[str, str] | None = None,
    *,
    inactive: Inactive = "hide",
    rows: int = ROWS,
    seed: int = 0,
) -> "Plot":
    """Plot the mean code of each latent over the factors, as in the β-TCVAE paper.

    Each latent has a row, sorted by KL divergence. The first panel is a map over two factors; each
    point is the mean code of all images with these two values. The other panels show the mean code
    along one other factor each, with a line per class of the first categorical factor, such as
    shape.

    Args:
        model: A trained model.
        data: Data set with a grid of factors.
        factors: The horizontal and vertical factor of the map (default: the positions).
        inactive: `"hide"` inactive latents or plot them too (`"grey"`).
        rows: Maximum number of images to encode, sampled from larger grids without replacement.
        seed: Random seed for this sample and for images that are random given their factors.

    Returns:
        A matplotlib figure; save it with `.save("maps.png")`.

    References:
        Chen et al., Isolating Sources of Disentanglement in VAEs, arXiv:1802.04942, Figure 6.
    """
    if data.grid is None:
        raise DataError(
            f"position_maps needs a grid of factors, but {data.name} has none; load it with a "
            "table of factors that covers every combination",
            subject="data",
            value=data.name,
        )
    drawn = draw_codes(model, data, rows=max(2, min(rows, len(data.support))), seed=seed)
    layout = _layout(data.grid, factors)
    latents = chosen_latents(drawn, inactive)
    return _draw(drawn, data.grid, layout, latents)


def mean_codes(codes: np.ndarray, classes: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Average codes over images with the same classes of some factors.

    Args:
        codes: Codes `[n, d]`.
        classes: Classes `[n, k]`.
        sizes: Number of classes of each of the k factors.

    Returns:
        Means `[d, *sizes]`, NaN for combinations without images.

    Example:
        >>> mean_codes(np.array([[1.0], [3.0], [5.0]]), np.array([[0], [0], [2]]), [3])
        array([[ 2., nan,  5.]])
    """
    cell = np.ravel_multi_index(tuple(classes.T), tuple(sizes))
    total = int(np.prod(sizes))
    counts = np.bincount(cell, minlength=total)
    sums = np.stack([np.bincount(cell, column, minlength=total) for column in codes.T])
    with np.errstate(invalid="ignore"):
        return (sums / counts).reshape(codes.shape[1], *sizes)


def _layout(grid: "Grid", factors: tuple[str, str] | None) -> _Layout:
    if factors is None:
        known = [pair for pair in POSITIONS if set(pair) <= set(grid.names)]
        if not known:
            raise DataError(
                f"no known position among the factors {', '.join(grid.names)}; set factors= to "
                "the two to map",
                subject="factors",
                value=grid.names,
            )
        factors = known[0]
    if len(factors) != 2:
        raise DataError.must("factors", "be two names", factors)
    across, down = (grid.column(name) for name in factors)
    if across == down:
        raise DataError.must("factors", "be two different names", factors)
    varying = [k for k, size in enumerate(grid.sizes) if size > 1 and k not in (across, down)]
    kinds = [k for k in varying if grid.axes[k].categorical and grid.sizes[k] <= FEW]
    colour = kinds[0] if kinds else None
    others = [k for k in varying if k != colour]
    # If the colour factor is the only one left, it gets a panel of its own instead.
    return _Layout(across, down, colour, others) if others else _Layout(across, down, None, kinds)


def _draw(drawn: DrawnCodes, grid: "Grid", layout: _Layout, latents: Sequence[int]) -> "Plot":
    assert drawn.factors is not None
    sizes, across, down = grid.sizes, layout.across, layout.down
    maps = mean_codes(drawn.means, drawn.factors[:, [down, across]], [sizes[down], sizes[across]])
    limit = max(float(np.nanmax(np.abs(maps[list(latents)]))), 1e-6)
    lines = {k: _lines(drawn, sizes, k, layout.colour) for k in layout.others}
    top = max(
        [limit, *(float(np.nanmax(np.abs(found[list(latents)]))) for found in lines.values())]
    )
    mark = float(f"{0.75 * top:.1g}")
    ratios = [0.72, *(1.1 for _ in layout.others)]
    size = min(PAGE, max(COLUMN, 0.8 + sum(ratios))), 0.85 + 0.75 * len(latents)
    figure, axes = panels(len(latents), len(ratios), size, width_ratios=ratios)
    names = grid.names
    for r, (row, latent) in enumerate(zip(axes, latents, strict=True)):
        image = row[0].imshow(maps[latent], SEQUENTIAL, vmin=-limit, vmax=limit)
        row[0].set(xticks=[], yticks=[], aspect="auto", box_aspect=1)
        label = [drawn.name(latent), *(f"→ {name}" for name in drawn.follows[latent][:1])]
        ink = INK if drawn.active[latent] else FAINT
        row[0].set_ylabel("\n".join(label), fontsize=TEXT, color=ink)
        for panel, k in zip(row[1:], layout.others, strict=True):
            _line_panel(plain(panel), lines[k][latent], grid.axes[k])
            panel.set_ylim(-1.08 * top, 1.08 * top)
            panel.set_yticks([-mark, 0, mark], [f"−{mark:g}", "0", f"{mark:g}"])
            # Tick labels appear once: below the last row and right of the last column.
            last = panel is row[-1]
            panel.tick_params(labelbottom=r == len(axes) - 1, labelleft=False, left=False)
            panel.tick_params(labelright=last, right=last)
            panel.spines["right"].set_visible(last)
            panel.spines["left"].set_visible(False)
    axes[0, 0].set_title(f"{names[across]} →\n{names[down]} ↓", fontsize=TEXT)
    for panel, k in zip(axes[0, 1:], layout.others, strict=True):
        panel.set_title(names[k], fontsize=TEXT)
    bar = figure.colorbar(image, ax=axes[:, 0], location="bottom", shrink=0.9, pad=0.02)
    bar.ax.tick_params(labelsize=SMALL, length=2, pad=2)
    bar.set_label("mean code", fontsize=SMALL)
    if layout.colour is not None:
        _legend(figure, grid.axes[layout.colour])
    return figure


def _lines(drawn: DrawnCodes, sizes: Sequence[int], factor: int, colour: int | None) -> np.ndarray:
    """Return mean codes along a factor, for each class of the colour factor, `[d, c, n]`."""
    assert drawn.factors is not None
    if colour is None:
        return mean_codes(drawn.means, drawn.factors[:, [factor]], [sizes[factor]])[:, None]
    return mean_codes(
        drawn.means, drawn.factors[:, [colour, factor]], [sizes[colour], sizes[factor]]
    )


def _line_panel(panel: "Axes", lines: np.ndarray, factor: "Factor") -> None:
    x = np.arange(lines.shape[1])
    joined = "none" if factor.categorical else "-"
    for line, colour, marker in zip(lines, palette(len(lines)), MARKERS * 9, strict=False):
        shape = marker if len(x) <= FEW else "." if factor.categorical else ""
        style: dict[str, Any] = {"linestyle": joined, "marker": shape, "color": colour}
        panel.plot(x, line, markersize=2.5, linewidth=1, **style)
    panel.axhline(0, color="0.85", linewidth=0.6, zorder=0)
    ends: Sequence[int] = (
        [0, len(x) - 1] if not factor.categorical or len(x) > 4 else range(len(x))
    )
    panel.set_xticks(ends, [factor.value_text(k) for k in ends], fontsize=SMALL)
    panel.margins(x=0.12)


def _legend(figure: "Plot", factor: "Factor") -> None:
    from matplotlib.lines import Line2D

    words = [factor.value_text(k) for k in range(len(factor))]
    handles = [
        Line2D([], [], color=colour, marker=marker, markersize=3, linewidth=1, label=word)
        for word, colour, marker in zip(words, palette(len(words)), MARKERS, strict=False)
    ]
    legend_above(figure, handles, min(4, len(words)))
