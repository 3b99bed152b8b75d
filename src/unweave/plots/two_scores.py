"""Two scores against each other: what a method pays for what it wins."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.columns import (
    DATA,
    METHOD,
    SEED,
    STRENGTH,
    StudyTableError,
    numbers,
    parts,
    require,
)
from unweave.analysis.distributions import summarise
from unweave.plots.colours import GREY, MARKERS, palette

if TYPE_CHECKING:
    from unweave.plots.plot import Plot

__all__ = ["trade_off", "trade_off_points"]

WORDS = {
    "reconstruction": "reconstruction error [nats]",
    "elbo.reconstruction_error": "reconstruction error [nats]",
    "kl": "KL divergence [nats]",
    "mig": "MIG",
    "dci": "DCI disentanglement",
    "sap": "SAP",
}


def trade_off(table: pd.DataFrame, x: str = "reconstruction", y: str = "mig") -> "Plot":
    """Draw two scores against each other: a point per method and strength, means over seeds.

    Error bars are standard deviations over seeds (of the population, as in `uw.study.analysis`).
    Points of one method are joined in the order of their strengths, which stand beside them.
    There is a panel for each data set.

    Args:
        table: One row per model, as of a study or of `uw.evaluate`: `method`, `strength` (or the
            method's own settings), the two scores and, where there are several, `data`.
        x: The score to the right.
        y: The score upwards.

    Returns:
        A matplotlib figure, to be saved with `.save("trade-off.svg")`.

    Notes:
        Models that lack one of the two scores, such as diverged ones, are left out and counted
        below the figure.
    """
    from unweave.plots.plot import COLUMN, SMALL, TEXT, legend_above, panels, plain

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
        panel.set_xlabel(WORDS.get(x, x), fontsize=TEXT)
        panel.set_ylabel(WORDS.get(y, y), fontsize=TEXT)
        panel.set_title(part.get(DATA, ""), fontsize=TEXT)
    legend_above(figure, axes.flat[0].get_legend_handles_labels()[0])
    left_out = len(table) - int(points["models"].sum())
    if left_out:
        figure.supxlabel(f"{left_out:,} models lack a score", fontsize=SMALL, x=0.01, ha="left")
    return figure


def trade_off_points(table: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """What `trade_off` draws.

    Args:
        table: See `trade_off`.
        x: A column of scores.
        y: Another.

    Returns:
        One row per data set, method and strength, sorted by them: `x`, `x_std`, `y`, `y_std`,
        `models`, and `strength`, in words.

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
            f"no model has both {x!r} and {y!r}; score the models with them, or choose others"
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
    words = [_words(row, settings) for row in found.to_dict("records")]
    return found.assign(**{STRENGTH: words})


def _settings(table: pd.DataFrame) -> list[str]:
    """The columns that tell models of a method apart: strength, or settings that vary."""
    if STRENGTH in table:
        return [STRENGTH]
    columns = table.columns.tolist()
    if SEED not in columns or columns.index(SEED) < columns.index(METHOD):
        return []
    settings = columns[columns.index(METHOD) + 1 : columns.index(SEED)]
    return [name for name in settings if table[name].nunique() > 1]


def _words(row: dict[Any, Any], settings: Sequence[str]) -> str:
    values = [row[name] for name in settings if not pd.isna(row[name])]
    return ", ".join(v if isinstance(v, str) else f"{v:g}" for v in values)


def _method(panel: Any, rows: pd.DataFrame, method: str, colour: str, marker: str) -> None:
    from unweave.plots.plot import SMALL

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
