"""Maps of latents: their mean codes over two factors, such as positions, and along the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.errors import DataError
from unweave.plots.colours import FAINT, INK, MARKERS, SEQUENTIAL, palette
from unweave.plots.drawn_codes import Seen, look
from unweave.plots.traversals import Inactive, chosen_latents

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unweave.data.dataset import Dataset
    from unweave.data.grid import Factor, Grid
    from unweave.models.model import Model
    from unweave.plots.plot import Plot

__all__ = ["mean_codes", "position_maps"]

ROWS = 60_000
"""Images that are encoded at most; means over those of a larger grid are then estimates."""
POSITIONS = (("posX", "posY"), ("x", "y"), ("horizontal", "vertical"), ("azimuth", "elevation"))
FEW = 8


@dataclass(frozen=True, eq=False)
class _Layout:
    """Which factor goes where: two on the map, one by colour, the others in columns."""

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
    """Draw what each latent does over the factors of the data, as the β-TCVAE paper does.

    One row per latent, that of largest KL divergence first. The first panel is a map of two
    factors: the latent's mean code, averaged over all images that have them. A panel for each
    other factor follows: the mean code along that factor, a line for each class of the first
    factor that has no order, such as shape.

    Args:
        model: A trained model.
        data: With a grid of factors.
        factors: The two on the map, to the right and downwards; by default the positions.
        inactive: `"hide"` latents that say nothing, or draw them too (`"grey"`).
        rows: Images that are encoded, at most; of larger grids so many are drawn, once each.
        seed: Of that draw, and of images that are random given their factors.

    Returns:
        A matplotlib figure, to be saved with `.save("maps.png")`.

    References:
        Chen et al., Isolating Sources of Disentanglement in VAEs, arXiv:1802.04942, Figure 6.
    """
    if data.grid is None:
        raise DataError(
            f"maps need a grid of factors, but {data.name} has none; load it with a table of "
            "factors that has every combination"
        )
    seen = look(model, data, rows=max(2, min(rows, len(data.support))), seed=seed)
    layout = _layout(data.grid, factors)
    latents = chosen_latents(seen, inactive)
    return _draw(seen, data.grid, layout, latents)


def mean_codes(codes: np.ndarray, classes: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The mean of codes by classes of some factors; NaN where no image has them.

    Args:
        codes: `[n, d]`.
        classes: `[n, k]`.
        sizes: How many classes each of the k factors has.

    Returns:
        `[d, *sizes]`.

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
                f"none of the factors {', '.join(grid.names)} is a position that we know; name "
                "the two to be mapped"
            )
        factors = known[0]
    if len(factors) != 2:
        raise DataError(f"a map has two factors, but got {len(factors)}")
    across, down = (grid.column(name) for name in factors)
    if across == down:
        raise DataError(f"a map has two different factors, but got {factors[0]!r} twice")
    varying = [k for k, size in enumerate(grid.sizes) if size > 1 and k not in (across, down)]
    kinds = [k for k in varying if grid.axes[k].categorical and grid.sizes[k] <= FEW]
    colour = kinds[0] if kinds else None
    others = [k for k in varying if k != colour]
    # A factor that could only be told by colour has a panel where there is no other.
    return _Layout(across, down, colour, others) if others else _Layout(across, down, None, kinds)


def _draw(seen: Seen, grid: "Grid", layout: _Layout, latents: Sequence[int]) -> "Plot":
    from unweave.plots.plot import COLUMN, PAGE, SMALL, TEXT, panels, plain

    assert seen.factors is not None
    sizes, across, down = grid.sizes, layout.across, layout.down
    maps = mean_codes(seen.means, seen.factors[:, [down, across]], [sizes[down], sizes[across]])
    limit = max(float(np.nanmax(np.abs(maps[list(latents)]))), 1e-6)
    lines = {k: _lines(seen, sizes, k, layout.colour) for k in layout.others}
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
        label = [seen.name(latent), *(f"→ {name}" for name in seen.follows[latent][:1])]
        ink = INK if seen.active[latent] else FAINT
        row[0].set_ylabel("\n".join(label), fontsize=TEXT, color=ink)
        for panel, k in zip(row[1:], layout.others, strict=True):
            _line_panel(plain(panel), lines[k][latent], grid.axes[k])
            panel.set_ylim(-1.08 * top, 1.08 * top)
            panel.set_yticks([-mark, 0, mark], [f"−{mark:g}", "0", f"{mark:g}"])
            # Numbers stand once: below the last row and right of the last column.
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


def _lines(seen: Seen, sizes: Sequence[int], factor: int, colour: int | None) -> np.ndarray:
    """Mean codes along a factor, for each class of the one that is told by colour, `[d, c, n]`."""
    assert seen.factors is not None
    if colour is None:
        return mean_codes(seen.means, seen.factors[:, [factor]], [sizes[factor]])[:, None]
    return mean_codes(
        seen.means, seen.factors[:, [colour, factor]], [sizes[colour], sizes[factor]]
    )


def _line_panel(panel: "Axes", lines: np.ndarray, factor: "Factor") -> None:
    from unweave.plots.plot import SMALL

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
    panel.set_xticks(ends, [factor.word(k) for k in ends], fontsize=SMALL)
    panel.margins(x=0.12)


def _legend(figure: "Plot", factor: "Factor") -> None:
    from matplotlib.lines import Line2D

    from unweave.plots.plot import legend_above

    words = [factor.word(k) for k in range(len(factor))]
    handles = [
        Line2D([], [], color=colour, marker=marker, markersize=3, linewidth=1, label=word)
        for word, colour, marker in zip(words, palette(len(words)), MARKERS, strict=False)
    ]
    legend_above(figure, handles, min(4, len(words)))
