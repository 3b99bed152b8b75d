"""Figures of scores on original, changed and noisy images: histograms, line searches, factors.

All functions read tables from `unweave study table`, with the columns `data`, `method`,
`strength`, `run` and scores.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.errors import DataError
from unweave.plots.colours import PALETTE

if TYPE_CHECKING:
    from unweave.plots.figure import Plot

__all__ = ["SCALES", "line_search", "show_gaps", "show_histogram", "show_line_search"]

SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Multiples of the published strength that are tried in a line search."""


def line_search(
    table: pd.DataFrame,
    metric: str,
    literature: Mapping[str, float],
    left_out: Iterable[str] = (),
) -> pd.DataFrame:
    """Summarise a score by strength, over restarts.

    Args:
        table: Table of a study whose strengths are `SCALES` times those of the literature.
        metric: Column of the score.
        literature: Published strength of each method, which is scale 1.
        left_out: Runs to exclude, such as those found by `over_pruned`.

    Returns:
        A row per data set, method and `scale`: `mean`, `std` (population), `models`, and the
        number of runs `left_out`. The mean is NaN if all runs of a scale are left out.

    Example:
        >>> table = pd.DataFrame({"run": list("abc"), "strength": [4, 4, 8], "mig": [0.1, 0.3, 1]})
        >>> found = line_search(table.assign(data="x", method="beta_vae"), "mig", {"beta_vae": 8})
        >>> found[["scale", "mean", "std", "models"]].round(3).values.tolist()
        [[0.5, 0.2, 0.1, 2.0], [1.0, 1.0, 0.0, 1.0]]
    """
    _require(table, ("data", "method", "strength", "run", metric))
    rows = table[table["method"].isin(list(literature))]
    scale = rows["strength"] / rows["method"].map(dict(literature))
    out = rows["run"].isin(list(left_out)) | rows[metric].isna()
    rows = rows.assign(scale=scale.astype(float), out=out, score=rows[metric].where(~out))
    groups = rows.groupby(["data", "method", "scale"], sort=True)
    return groups.agg(
        mean=("score", "mean"),
        std=("score", lambda scores: scores.std(ddof=0)),
        models=("score", "count"),
        left_out=("out", "sum"),
    ).reset_index()


def show_line_search(frame: pd.DataFrame, metric: str = "score") -> "Plot":
    """Draw a `line_search`: a panel per method, a line per data set, bands of one std."""
    from unweave.plots.plot import TEXT

    _require(frame, ("data", "method", "scale", "mean", "std"))
    methods, data = _names(frame, "method"), _names(frame, "data")
    figure, axes = _panels(len(methods))
    for panel, method in zip(axes, methods, strict=True):
        for place, name in enumerate(data):
            part = frame[(frame["method"] == method) & (frame["data"] == name)]
            low, high = part["mean"] - part["std"], part["mean"] + part["std"]
            colour = PALETTE[place % len(PALETTE)]
            panel.fill_between(part["scale"], low, high, color=colour, alpha=0.2, linewidth=0)
            panel.plot(part["scale"], part["mean"], ".-", color=colour, label=name)
        panel.set_title(method, fontsize=TEXT)
        panel.set_xlabel("scale of the strength", fontsize=TEXT)
    axes[0].set_ylabel(metric, fontsize=TEXT)
    axes[-1].legend(fontsize=TEXT - 1, frameon=False)
    return figure


def show_histogram(table: pd.DataFrame, metric: str = "mig", bins: int = 20) -> "Plot":
    """Draw the distribution of a score: a panel per method, a histogram per data set."""
    from unweave.plots.plot import TEXT

    _require(table, ("data", "method", metric))
    scored = table.dropna(subset=[metric])
    methods, data = _names(scored, "method"), _names(scored, "data")
    edges = np.linspace(min(0.0, scored[metric].min()), max(1.0, scored[metric].max()), bins + 1)
    figure, axes = _panels(len(methods))
    for panel, method in zip(axes, methods, strict=True):
        for place, name in enumerate(data):
            part = scored[(scored["method"] == method) & (scored["data"] == name)]
            style: dict[str, Any] = {"color": PALETTE[place % len(PALETTE)], "label": name}
            panel.hist(part[metric], edges, histtype="stepfilled", alpha=0.5, **style)
        panel.set_title(method, fontsize=TEXT)
        panel.set_xlabel(metric, fontsize=TEXT)
    axes[0].set_ylabel("models", fontsize=TEXT)
    axes[-1].legend(fontsize=TEXT - 1, frameon=False)
    return figure


def show_gaps(gaps: Mapping[str, pd.DataFrame]) -> "Plot":
    """Draw the MIG of each factor, with mean and standard deviation over models.

    Args:
        gaps: Results of `factor_gaps`, by a name for the images, such as `"original"`.
    """
    from unweave.plots.plot import TEXT

    factors = _names(pd.concat(list(gaps.values())), "factor")
    figure, (panel,) = _panels(1, wide=1.0 + 0.7 * len(factors))
    width = 0.8 / len(gaps)
    for place, (name, frame) in enumerate(gaps.items()):
        each = [frame.loc[frame["factor"] == factor, "gap"] for factor in factors]
        x = np.arange(len(factors)) + (place - (len(gaps) - 1) / 2) * width
        means, spreads = [one.mean() for one in each], [one.std(ddof=0) for one in each]
        colour = PALETTE[place % len(PALETTE)]
        panel.bar(x, means, width, yerr=spreads, color=colour, label=name, error_kw={"lw": 0.8})
    panel.set_xticks(range(len(factors)), factors, fontsize=TEXT - 1)
    panel.set_ylabel("MIG of the factor", fontsize=TEXT)
    panel.legend(fontsize=TEXT - 1, frameon=False)
    return figure


def _panels(count: int, wide: float = 2.2) -> "tuple[Plot, Any]":
    from unweave.plots.plot import panels, plain

    figure, axes = panels(1, count, (max(3.25, wide * count), 2.3), sharey=True)
    for panel in axes[0]:
        plain(panel)
    return figure, axes[0]


def _names(frame: pd.DataFrame, column: str) -> list[str]:
    return list(dict.fromkeys(frame[column]))


def _require(frame: pd.DataFrame, columns: tuple[str, ...]) -> None:
    for name in columns:
        if name not in frame:
            raise DataError(
                f"the table has no column {name!r}; pass the table of a study", subject=name
            )
    if frame.empty:
        raise DataError(
            "the table has no rows; pass a table of scored models", subject="rows", value=0
        )
