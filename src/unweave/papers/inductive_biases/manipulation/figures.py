"""Figures of scores on original, changed and noisy images: histograms, line searches, factors.

All functions read tables from `unweave study table`, with the columns `data`, `method`,
`strength`, `run` and scores.
"""

from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.study_table import require
from unweave.papers.plots import Panel, draw, labelled
from unweave.plots.colours import PALETTE

if TYPE_CHECKING:
    from unweave.plots.figure import Plot

__all__ = ["SCALES", "line_search", "show_gaps", "show_histogram", "show_line_search"]

SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Multiples of the published strength that are tried in a line search."""


def line_search(
    table: pd.DataFrame, metric: str, literature: Mapping[str, float], left_out: Iterable[str] = ()
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
    require(table, ("data", "method", "strength", "run", metric))
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
    require(frame, ("data", "method", "scale", "mean", "std"))
    row = [
        Panel(
            rows=rows,
            x="scale",
            columns={"mean": metric},
            deviations={"mean": "std"},
            by="data",
            kinds=list(frame["data"].unique()),
            title=str(method),
            xlabel="scale of the strength",
            ylabel=metric,
        )
        for method, rows in frame.groupby("method", sort=False)
    ]
    return draw([row], "band", sharey=True)


def show_histogram(table: pd.DataFrame, metric: str = "mig", bins: int = 20) -> "Plot":
    """Draw the distribution of a score: a panel per method, a histogram per data set."""
    from unweave.plots.plot import SMALL, panels, plain

    require(table, ("data", "method", metric))
    scored = table.dropna(subset=[metric])
    methods = list(scored.groupby("method", sort=False))
    edges = np.linspace(min(0.0, scored[metric].min()), max(1.0, scored[metric].max()), bins + 1)
    figure, axes = panels(1, len(methods), (max(3.25, 2.2 * len(methods)), 2.3), sharey=True)
    for panel, (method, of_method) in zip(axes[0], methods, strict=True):
        for colour, data in zip(cycle(PALETTE), scored["data"].unique(), strict=False):
            scores = of_method.loc[of_method["data"] == data, metric]
            style: dict[str, Any] = {"color": colour, "label": data}
            plain(panel).hist(scores, edges.tolist(), histtype="stepfilled", alpha=0.5, **style)
        labelled(panel, str(method), metric, "" if panel is not axes[0, 0] else "models")
    axes[0, -1].legend(fontsize=SMALL, frameon=False)
    return figure


def show_gaps(gaps: Mapping[str, pd.DataFrame]) -> "Plot":
    """Draw the MIG of each factor: a bar for the mean over models, and a dot for each model."""
    rows = pd.concat([frame.assign(images=name) for name, frame in gaps.items()])
    panel = Panel(
        rows=rows, x="factor", columns={"gap": "MIG"}, by="images", ylabel="MIG of the factor"
    )
    return draw([[panel]], "bars")
