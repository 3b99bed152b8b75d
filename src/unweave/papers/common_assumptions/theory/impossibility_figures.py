"""The figures of the theorem: factors before and after f, and what metrics say of both."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.papers.common_assumptions.theory import impossibility
from unweave.papers.common_assumptions.theory.impossibility import Entanglement
from unweave.plots.colours import FAINT, PALETTE

if TYPE_CHECKING:
    from unweave.plots.plot import Plot

__all__ = ["draw_collapse", "draw_grid", "headlines"]

LINES, POINTS, DRAWS = 9, 201, 3000
INNER = 0.002
"""The probability that is left out on both sides of a grid, where laws have no end."""
BEFORE, AFTER = PALETTE[0], PALETTE[1]


def draw_grid(entanglement: Entanglement, seed: int = 0) -> "Plot":
    """Draw the first two factors as a grid, and as draws; before and after f.

    Lines are quantiles of one factor, with any further factors at their medians: blue where the
    first is the same, orange where the second is. Draws show that the law is the same.

    Args:
        entanglement: f.
        seed: Of the draws.
    """
    from unweave.plots.plot import PAGE, panels, plain

    figure, axes = panels(1, 4, (PAGE, 1.95))
    lines = _lines(entanglement)
    drawn = impossibility.draw(entanglement.priors, DRAWS, seed)
    for place, name in enumerate(("z", "f(z)")):
        grid, cloud = plain(axes[0, place]), plain(axes[0, place + 2])
        for fixed, style in ((0, "-"), (1, "--")):
            for line in lines[fixed]:
                shown = entanglement(line) if place else line
                colour = (BEFORE, AFTER)[fixed]
                grid.plot(*shown[:, :2].T, style, color=colour, linewidth=0.9)
        shown = entanglement(drawn) if place else drawn
        cloud.scatter(shown[:, 0], shown[:, 1], s=1, color=FAINT, alpha=0.4, linewidths=0)
        _named(grid, "factors" if place == 0 else "entangled factors", name)
        _named(cloud, f"draws of {name}", name)
        # Both clouds, and both grids, on the same scale.
        cloud.set(xlim=_span(drawn[:, 0]), ylim=_span(drawn[:, 1]))
        inner = np.concatenate([line[:, :2] for group in lines for line in group])
        grid.set(xlim=_span(inner[:, 0]), ylim=_span(inner[:, 1]))
    return figure


def draw_collapse(table: pd.DataFrame, title: str = "") -> "Plot":
    """Draw scores as bars, two for each metric.

    Args:
        table: Of `collapse` or `entangled_twin.compare`: `metric`, and two columns of scores.
            Further numbers of a metric, `dci.completeness`, and metrics whose scores are not
            between 0 and 1, have no bars.
        title: Above.
    """
    from unweave.plots.plot import COLUMN, SMALL, TEXT, panels, plain

    heads = headlines(table)
    figure, axes = panels(1, 1, (max(COLUMN, 0.75 * len(heads)), 2.1))
    panel, places = plain(axes[0, 0]), np.arange(len(heads))
    for name, shift, colour, hatch in zip(
        heads.columns[1:], (-0.2, 0.2), (BEFORE, AFTER), ("", "//"), strict=True
    ):
        style = {"color": colour, "label": _WORDS.get(name, name), "hatch": hatch}
        bars = panel.bar(places + shift, heads[name], 0.38, edgecolor="white", **style)
        panel.bar_label(bars, fmt="%.2f", fontsize=SMALL - 1, padding=1)
    panel.set_xticks(places, [m.replace("_", " ") for m in heads["metric"]], fontsize=SMALL)
    panel.set(ylim=(0, 1.12), yticks=[0, 0.5, 1])
    panel.set_title(title, fontsize=TEXT)
    figure.legend(loc="outside upper right", ncols=2, fontsize=SMALL, frameon=False)
    return figure


def headlines(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table that are a metric's own score, between 0 and 1."""
    from unweave.metrics import METRICS

    bounded = [name for name, metric in METRICS.items() if metric.bounds == (0.0, 1.0)]
    return table[table["metric"].isin(bounded)].reset_index(drop=True)


_WORDS = {"code": "z", "entangled": "f(z)", "model": "model", "twin": "entangled twin"}


def _lines(entanglement: Entanglement) -> list[list[np.ndarray]]:
    """By the factor that is fixed, first or second, lines `[points, d]` along the other."""
    priors = entanglement.priors
    medians = np.array([float(prior.ppf(0.5)) for prior in priors])
    groups = []
    for fixed, moving in ((0, 1), (1, 0)):
        along = priors[moving].ppf(np.linspace(INNER, 1 - INNER, POINTS))
        lines = []
        for share in np.linspace(0.05, 0.95, LINES):
            line = np.tile(medians, (POINTS, 1))
            line[:, fixed], line[:, moving] = priors[fixed].ppf(share), along
            lines.append(line)
        groups.append(lines)
    return groups


def _span(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return low - 0.03 * (high - low), high + 0.03 * (high - low)


def _named(panel: Any, title: str, name: str) -> None:
    from unweave.plots.plot import TEXT

    panel.set_box_aspect(1)
    panel.set_title(title, fontsize=TEXT)
    panel.set_xlabel(f"{name}₁" if name == "z" else "f₁(z)", fontsize=TEXT)
    panel.set_ylabel(f"{name}₂" if name == "z" else "f₂(z)", fontsize=TEXT)
