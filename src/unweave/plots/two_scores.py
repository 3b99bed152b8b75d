"""Scatter plots of two scores, to show trade-offs such as quality against disentanglement."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.distributions import summarise
from unweave.analysis.study_table import (
    DATA,
    METHOD,
    SEED,
    STRENGTH,
    StudyTableError,
    numbers,
    parts,
    require,
)
from unweave.plots.colours import GREY, MARKERS, palette
from unweave.plots.plot import COLUMN, SMALL, TEXT, legend_above, panels, plain

if TYPE_CHECKING:
    from unweave.plots.figure import Plot

__all__ = ["trade_off", "trade_off_points"]

AXIS_LABELS = {
    "reconstruction": "reconstruction error [nats]",
    "elbo.reconstruction_error": "reconstruction error [nats]",
    "kl": "KL divergence [nats]",
    "mig": "MIG",
    "dci": "DCI disentanglement",
    "sap": "SAP",
}


def trade_off(table: pd.DataFrame, x: str = "reconstruction", y: str = "mig") -> "Plot":
    """Plot two scores against each other: a point per method and strength, averaged over seeds.

    Error bars are population standard deviations over seeds, as in `uw.study.analysis`. Points of
    one method are labelled with their strengths and joined in that order. Each data set has its
    own panel.

    Args:
        table: Table with one row per model, from a study or `uw.evaluate`. Columns: `method`,
            `strength` (or the method's own settings), the two scores and, if several, `data`.
        x: Score on the horizontal axis.
        y: Score on the vertical axis.

    Returns:
        A matplotlib figure; save it with `.save("trade-off.svg")`.

    Notes:
        Models that lack one of the scores, such as diverged ones, are left out and counted below
        the figure.
    """
    points = trade_off_points(table, x, y)
    several = DATA in points and points[DATA].nunique() > 1
    drawn = list(parts(points, (DATA,))) if several else [({}, points)]
    methods = points[METHOD].unique().tolist()
    wide = min(len(drawn), 3)
    tall = -(-len(drawn) // wide)
    size = (COLUMN if wide == 1 else 2.25 * wide), 2.35 * tall + 0.3
    figure, axes = panels(tall, wide, size)
    for panel in axes.flat[len(drawn) :]:
        panel.set_axis_off()
    for panel, (part, rows) in zip(axes.flat, drawn, strict=False):
        for method, colour, marker in zip(
            methods, palette(len(methods)), MARKERS * len(methods), strict=False
        ):
            _method(plain(panel), rows[rows[METHOD] == method], method, colour, marker)
        panel.set_xlabel(AXIS_LABELS.get(x, x), fontsize=TEXT)
        panel.set_ylabel(AXIS_LABELS.get(y, y), fontsize=TEXT)
        panel.set_title(part.get(DATA, ""), fontsize=TEXT)
    legend_above(figure, axes.flat[0].get_legend_handles_labels()[0])
    left_out = len(table) - int(points["models"].sum())
    if left_out:
        figure.supxlabel(f"{left_out:,} models lack a score", fontsize=SMALL, x=0.01, ha="left")
    return figure


def trade_off_points(table: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Compute the points of `trade_off`.

    Args:
        table: Table with one row per model, see `trade_off`.
        x: Column of the first score.
        y: Column of the second score.

    Returns:
        One row per data set, method and strength, sorted by them: `x`, `x_std`, `y`, `y_std`,
        `models`, and `strength` as text.

    Example:
        >>> table = pd.DataFrame({"method": "beta_vae", "strength": [1, 1, 4], "seed": [0, 1, 0]})
        >>> table = table.assign(reconstruction=[10.0, 14.0, 30.0], mig=[0.1, 0.3, 0.4])
        >>> points = trade_off_points(table, "reconstruction", "mig")
        >>> points[["strength", "x", "x_std", "models"]].values.tolist()
        [['1', 12.0, 2.0, 2], ['4', 30.0, 0.0, 1]]
    """
    require(table, (METHOD,))
    scored = table[np.isfinite(numbers(table, [x, y])).all(1)].reset_index(drop=True)
    if scored.empty:
        raise StudyTableError(
            f"no model has both {x!r} and {y!r}; compute these scores or choose others",
            subject="table",
            value=(x, y),
        )
    settings = _settings(table)
    keys = [name for name in (DATA, METHOD) if name in table] + settings
    scored = scored.sort_values(settings, kind="stable") if settings else scored
    cut = {name: summarise(scored, [name], keys) for name in (x, y)}
    found = cut[x][keys].assign(
        x=cut[x]["mean"],
        x_std=cut[x]["std"],
        y=cut[y]["mean"],
        y_std=cut[y]["std"],
        models=cut[x]["models"],
    )
    strengths = [_strength(row, settings) for row in found.to_dict("records")]
    return found.assign(**{STRENGTH: strengths})


def _settings(table: pd.DataFrame) -> list[str]:
    """Return the columns that distinguish models of a method: strength, or varying settings."""
    if STRENGTH in table:
        return [STRENGTH]
    columns = table.columns.tolist()
    if SEED not in columns or columns.index(SEED) < columns.index(METHOD):
        return []
    settings = columns[columns.index(METHOD) + 1 : columns.index(SEED)]
    return [name for name in settings if table[name].nunique() > 1]


def _strength(row: dict[Any, Any], settings: Sequence[str]) -> str:
    values = [row[name] for name in settings if not pd.isna(row[name])]
    return ", ".join(v if isinstance(v, str) else f"{v:g}" for v in values)


def _method(panel: Any, rows: pd.DataFrame, method: str, colour: str, marker: str) -> None:
    if rows.empty:
        return
    bars = {"elinewidth": 0.8, "capsize": 2, "capthick": 0.8, "markersize": 4.5}
    panel.plot(rows["x"], rows["y"], color=GREY, linewidth=0.8, zorder=1)
    panel.errorbar(
        rows["x"],
        rows["y"],
        rows["y_std"],
        rows["x_std"],
        marker,
        color=colour,
        label=method,
        **bars,
    )
    for row in rows.itertuples():
        panel.annotate(
            row.strength,
            (row.x, row.y),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=SMALL,
            color=colour,
        )
