"""Figures of Theorem 1: factors before and after f, and metrics of both codes."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unweave.papers.common_assumptions.theory import impossibility
from unweave.papers.common_assumptions.theory.impossibility import Entanglement
from unweave.papers.plots import labelled
from unweave.plots.colours import FAINT, PALETTE

if TYPE_CHECKING:
    from unweave.plots.figure import Plot

__all__ = ["draw_collapse", "draw_grid", "headlines"]

LINES, POINTS, DRAWS = 9, 201, 3000
INNER = 0.002
"""Probability cut off at both ends of a grid, because priors may have infinite support."""
BEFORE, AFTER = PALETTE[0], PALETTE[1]


def draw_grid(entanglement: Entanglement, seed: int = 0) -> "Plot":
    """Draw the first two factors before and after f, as a grid and as samples.

    Lines are quantiles of one factor, with any other factors at their medians: the first factor is
    constant on blue lines, the second on orange lines. Samples show the equal distributions.
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
        first, second = ("z₁", "z₂") if place == 0 else ("f₁(z)", "f₂(z)")
        labelled(grid, "factors" if place == 0 else "entangled factors", first, second)
        labelled(cloud, f"samples of {name}", first, second)
        for panel in (grid, cloud):
            panel.set_box_aspect(1)
        # Use the same scale before and after f.
        cloud.set(xlim=_span(drawn[:, 0]), ylim=_span(drawn[:, 1]))
        inner = np.concatenate([line[:, :2] for group in lines for line in group])
        grid.set(xlim=_span(inner[:, 0]), ylim=_span(inner[:, 1]))
    return figure


def draw_collapse(table: pd.DataFrame, title: str = "") -> "Plot":
    """Draw a bar chart of scores with two bars per metric.

    Args:
        table: Result of `collapse` or `entangled_twin.compare`, with two columns of scores.
            Secondary scores, such as `dci.completeness`, and metrics whose scores are not between
            0 and 1 are omitted.
        title: Title of the chart.
    """
    from unweave.plots.plot import COLUMN, SMALL, TEXT, panels, plain

    heads = headlines(table)
    figure, axes = panels(1, 1, (max(COLUMN, 0.75 * len(heads)), 2.1))
    panel, places = plain(axes[0, 0]), np.arange(len(heads))
    for name, shift, colour, hatch in zip(
        heads.columns[1:], (-0.2, 0.2), (BEFORE, AFTER), ("", "//"), strict=True
    ):
        style = {"color": colour, "label": _LABELS.get(name, name), "hatch": hatch}
        bars = panel.bar(places + shift, heads[name], 0.38, edgecolor="white", **style)
        panel.bar_label(bars, fmt="%.2f", fontsize=SMALL - 1, padding=1)
    panel.set_xticks(places, [m.replace("_", " ") for m in heads["metric"]], fontsize=SMALL)
    panel.set(ylim=(0, 1.12), yticks=[0, 0.5, 1])
    panel.set_title(title, fontsize=TEXT)
    figure.legend(loc="outside upper right", ncols=2, fontsize=SMALL, frameon=False)
    return figure


def headlines(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the headline score of a metric, if it is between 0 and 1."""
    from unweave.metrics import METRICS

    bounded = [name for name, metric in METRICS.items() if metric.bounds == (0.0, 1.0)]
    return table[table["metric"].isin(bounded)].reset_index(drop=True)


_LABELS = {"code": "z", "entangled": "f(z)", "model": "model", "twin": "entangled twin"}


def _lines(entanglement: Entanglement) -> list[list[np.ndarray]]:
    """Return lines `[points, d]` along one factor, grouped by the fixed factor (first, second)."""
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
