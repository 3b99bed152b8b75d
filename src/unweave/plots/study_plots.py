"""Plots of study results, one function per analysis.

Each function takes the result of the analysis of the same name in `unweave.analysis` as `frame`
and returns a figure. If `path` is given, the figure is also saved there, as `.png` or `.svg`.
Colours are safe for colour-blind readers, and lines also differ in style.
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.study_table import (
    DATA,
    DOWNSTREAM,
    METHOD,
    STRENGTH,
    numbers,
    parts,
    require,
)
from unweave.plots.colours import DIVERGING, SEQUENTIAL
from unweave.plots.colours import PALETTE as COLOURS
from unweave.plots.plot import legend_above, panels, write_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unweave.plots.figure import Plot

__all__ = [
    "data_agreement",
    "downstream_agreement",
    "metric_agreement",
    "score_distributions",
    "total_correlation",
    "transfer",
    "unsupervised_selection",
    "variance_explained",
]

LUMINANCE = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in the luminance, from ITU-R BT.601."""
LINES = {
    ("mean", "all"): ":",
    ("mean", "active"): "-",
    ("sampled", "all"): "--",
    ("sampled", "active"): "-.",
}


def total_correlation(frame: pd.DataFrame, path: str | Path | None = None) -> "Plot":
    """Plot the median total correlation by strength, with a panel per data set and method."""
    require(frame, (DATA, METHOD, STRENGTH, "codes", "latents", "median"))
    data, methods = frame[DATA].unique().tolist(), frame[METHOD].unique().tolist()
    figure, axes = _panels(len(data), len(methods), (2.4, 2.2))
    for part, rows in parts(frame, (DATA, METHOD)):
        panel = axes[data.index(part[DATA]), methods.index(part[METHOD])]
        _strength_lines(panel, rows)
        panel.set_title(f"{part[METHOD]}, {part[DATA]}", fontsize=9)
        panel.set_xlabel("strength", fontsize=8)
    for row in axes:
        row[0].set_ylabel("total correlation [nats]", fontsize=8)
    legend_above(figure, axes[0, 0].get_legend_handles_labels()[0])
    return _finish(figure, frame, path)


def _strength_lines(panel: "Axes", rows: pd.DataFrame) -> None:
    for part, chosen in parts(rows.sort_values(STRENGTH), ("codes", "latents")):
        kind = part["codes"], part["latents"]
        colour = COLOURS[list(LINES).index(kind)]
        # Strengths are spaced evenly because their scales differ between methods.
        x = np.arange(len(chosen))
        (line,) = panel.plot(x, chosen["median"], "o", markersize=3, color=colour)
        line.set(linestyle=LINES[kind], label=f"{kind[0]} codes, {kind[1]} latents")
        panel.fill_between(x, chosen["low"], chosen["high"], color=colour, alpha=0.15, linewidth=0)
        panel.set_xticks(
            x, ["" if np.isnan(value) else f"{value:g}" for value in chosen[STRENGTH]], fontsize=7
        )


def metric_agreement(frame: pd.DataFrame, path: str | Path | None = None) -> "Plot":
    """Plot rank correlations between metrics in percent, with a panel per data set."""
    return _correlations(frame, "metric", "other", (DATA, METHOD), path)


def unsupervised_selection(frame: pd.DataFrame, path: str | Path | None = None) -> "Plot":
    """Plot rank correlations of label-free scores with metrics, with a panel per data set."""
    return _correlations(frame, "score", "metric", (DATA, METHOD), path)


def downstream_agreement(frame: pd.DataFrame, path: str | Path | None = None) -> "Plot":
    """Plot rank correlations of metrics with downstream results, with a panel per data set."""
    return _correlations(frame, "metric", "task", (DATA, METHOD), path)


def data_agreement(frame: pd.DataFrame, path: str | Path | None = None) -> "Plot":
    """Plot rank correlations of configurations between data sets, with a panel per metric."""
    return _correlations(frame, DATA, "other", ("metric",), path)


def score_distributions(
    table: pd.DataFrame, metric: str, path: str | Path | None = None
) -> "Plot":
    """Plot violins of a score by method and by method and strength, with a column per data set.

    Args:
        table: The study table, with a row per model.
        metric: Column of the score.
        path: File to save the figure to, `.png` or `.svg` (default: not saved).
    """
    scores = numbers(table, [metric])[:, 0]
    require(table, (DATA, METHOD, STRENGTH))
    scored = table[~np.isnan(scores)]
    require(scored, ())
    data, methods = scored[DATA].unique().tolist(), scored[METHOD].unique().tolist()
    figure, axes = _panels(2, len(data), (max(4.0, 1.1 * len(methods)), 2.8))
    for column, (_, rows) in enumerate(parts(scored, (DATA,))):
        _violins(axes[0, column], rows, metric, (METHOD,), methods)
        _violins(axes[1, column], rows, metric, (METHOD, STRENGTH), methods)
        axes[0, column].set_title(data[column], fontsize=9)
    left_out = len(table) - len(scored)
    note = f"{len(scored):,} models, {left_out:,} without this score. White: medians."
    return _finish(figure, note, path)


def _violins(
    panel: "Axes", rows: pd.DataFrame, metric: str, keys: Sequence[str], methods: list[str]
) -> None:
    groups = list(parts(rows.sort_values(STRENGTH), keys))
    groups.sort(key=lambda group: methods.index(group[0][METHOD]))
    for x, (part, models) in enumerate(groups):
        scores = models[metric].to_numpy(float)
        colour = COLOURS[methods.index(part[METHOD]) % len(COLOURS)]
        # Equal scores have no density, so there is no violin to plot.
        if np.ptp(scores) > 0:
            drawn: Any = panel.violinplot([scores], [x], widths=0.85, showextrema=False)
            drawn["bodies"][0].set(facecolor=colour, alpha=0.75)
        panel.scatter([x], [np.median(scores)], s=14, color="white", edgecolor=colour, zorder=3)
    labels = [_cell_name(part) for part, _ in groups]
    panel.set_xticks(range(len(groups)), labels, rotation=90, fontsize=7)
    panel.set_ylabel(metric, fontsize=8)


def _cell_name(part: dict[str, Any]) -> str:
    strength = part.get(STRENGTH, np.nan)
    return part[METHOD] if np.isnan(strength) else f"{part[METHOD]} {strength:g}"


def variance_explained(frame: pd.DataFrame, path: str | Path | None = None) -> "Plot":
    """Plot R² of every metric and data set in percent, with a panel per grouping."""
    require(frame, (DATA, "metric", "grouping", "r2", "null_r2"))
    groupings = frame["grouping"].unique().tolist()
    shape = frame[DATA].nunique(), frame["metric"].nunique()
    figure, axes = _panels(1, len(groupings), (1.8 + 0.5 * shape[1], 1.4 + 0.35 * shape[0]))
    for panel, grouping in zip(axes[0], groupings, strict=True):
        rows = frame[frame["grouping"] == grouping]
        _heatmap(panel, rows, DATA, "metric", "r2", (0, 1), SEQUENTIAL)
        title = f"by {grouping} [%], noise alone: {100 * rows['null_r2'].median():.1f}"
        panel.set_title(title, fontsize=9)
    return _finish(figure, frame, path)


def transfer(frame: pd.DataFrame, path: str | Path | None = None) -> "Plot":
    """Plot how often a chosen configuration beats a random one, with errors and chance level."""
    require(frame, ("kind", "rate", "standard_error", "chance", "published"))
    figure, axes = _panels(1, 1, (5.2, 3.2))
    panel, x = axes[0, 0], np.arange(len(frame))
    bars = {"color": COLOURS[5], "ecolor": COLOURS[6], "capsize": 4}
    error = 100 * frame["standard_error"]
    panel.bar(x, 100 * frame["rate"], 0.6, yerr=error, label="obtained", **bars)
    panel.scatter(x, 100 * frame["published"], marker="D", color=COLOURS[1], label="published")
    panel.axhline(100 * frame["chance"].iloc[0], color=COLOURS[6], linestyle="--", label="chance")
    panel.set_xticks(x, [kind.replace(", ", ",\n") for kind in frame["kind"]], fontsize=8)
    panel.set_ylabel("better than random [%]", fontsize=8)
    panel.set_ylim(0, 100)
    panel.legend(fontsize=7, frameon=False, loc="upper right")
    return _finish(figure, frame, path)


def _correlations(
    frame: pd.DataFrame, rows: str, columns: str, keys: Sequence[str], path: str | Path | None
) -> "Plot":
    """Plot a panel of correlations for each combination of the keys present in the frame."""
    require(frame, (rows, columns, keys[0], "spearman"))
    panels = list(parts(frame, [key for key in keys if key in frame.columns]))
    size = 2.4 + 0.42 * frame[columns].nunique(), 1.6 + 0.32 * frame[rows].nunique()
    wide = min(4, len(panels))
    figure, axes = _panels(-(-len(panels) // wide), wide, size)
    for panel in axes.flat[len(panels) :]:
        panel.set_axis_off()
    for panel, (part, chosen) in zip(axes.flat, panels, strict=False):
        _heatmap(panel, chosen, rows, columns, "spearman", (-1, 1), DIVERGING)
        panel.set_title(f"{', '.join(part.values())}: Spearman [%]", fontsize=9)
    return _finish(figure, frame, path)


def _heatmap(
    panel: "Axes",
    frame: pd.DataFrame,
    rows: str,
    columns: str,
    values: str,
    limits: tuple[float, float],
    colours: str,
) -> None:
    """Plot a coloured table of percentages; missing values stay white."""
    left, top = frame[rows].unique().tolist(), frame[columns].unique().tolist()
    wide = frame.pivot_table(index=rows, columns=columns, values=values, observed=True)
    array = wide.reindex(index=left, columns=top).to_numpy(float)
    image = panel.imshow(array, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto")
    dark = image.to_rgba(array)[..., :3] @ LUMINANCE < 0.5
    # Whole numbers, so that no -0 is shown.
    write_numbers(panel, array, lambda value: str(round(100 * value)), dark)
    labels = [str(name).removeprefix(f"{DOWNSTREAM}.") for name in top]
    panel.set_xticks(range(len(top)), labels, rotation=90, fontsize=7)
    panel.set_yticks(range(len(left)), left, fontsize=7)


def _panels(rows: int, columns: int, size: tuple[float, float]) -> tuple["Plot", Any]:
    """Create an empty figure and its axes `[rows, columns]`, each `size` inches large."""
    return panels(rows, columns, (columns * size[0], rows * size[1] + 0.6))


def _finish(figure: "Plot", frame: pd.DataFrame | str, path: str | Path | None) -> "Plot":
    """Write the note of a result below the figure, and save it if a path is given."""
    note = frame if isinstance(frame, str) else str(frame.attrs.get("note", ""))
    width = int(15 * figure.get_figwidth())
    figure.supxlabel(fill(note, width), fontsize=7, x=0.01, ha="left")
    if path is not None:
        figure.save(path)
    return figure
