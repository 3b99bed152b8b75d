"""Plots of learned prior exponents: a histogram over models, or one model over training."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.errors import UnweaveError
from unweave.plots.colours import FAINT, INK, palette
from unweave.plots.plot import (
    COLUMN,
    LINE,
    TEXT,
    label_step_axis,
    legend_above,
    name_line_ends,
    panels,
    plain,
)

if TYPE_CHECKING:
    from unweave.models.finding import Models
    from unweave.models.model import Model
    from unweave.plots.figure import Plot

__all__ = ["exponents", "histogram"]

OF_SUBSPACE = re.compile(r"p_(\d+)")
BINS = 30
ROOT_LINE: Mapping[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": ":"}
START_LINE: Mapping[str, Any] = {"color": FAINT, "linewidth": 0.9, "linestyle": "--"}


def exponents(models: "Models") -> "Plot":
    """Plot the subspace exponents that one or several ISA-VAEs learned.

    For several models the plot is a histogram with one panel per layout. The order of subspaces is
    arbitrary, so exponents are sorted within each model and coloured by rank: smallest, second, …
    For one model, the plot shows its exponents over training, as recorded in its curve. Lines mark
    p₀ and the initial exponents.

    Args:
        models: A model, a fleet, folders of saved runs, or several of these. Diverged models and
            models without learned exponents are left out.

    Returns:
        A matplotlib figure; save it with `.save("exponents.svg")`.

    References:
        Stühmer, Turner and Nowozin, Independent Subspace Analysis for Unsupervised Learning of
        Disentangled Representations, arXiv:1909.05063, Figure 7.
    """
    from unweave.methods.isa_vae import tree_for
    from unweave.models.finding import models_of

    learned: list[Any] = [model for model in models_of(models) if _has_learned(model)]
    if not learned:
        raise UnweaveError(
            "none of these models learned exponents; train isa_vae or isa_tc_vae with "
            "learned=True",
            subject="models",
        )
    if len(learned) == 1:
        return _over_training(learned[0])
    by_layout: dict[str, list[np.ndarray]] = {}
    for model in learned:
        layout = str(tree_for(model.config.method.layout, model.config.latents))
        by_layout.setdefault(layout, []).append(model.exponents[1:])
    methods = [model.config.method for model in learned]
    return histogram(
        {layout: np.stack(values) for layout, values in by_layout.items()},
        sorted({float(method.p0) for method in methods}),
        sorted({float(method.p) for method in methods}),
    )


def histogram(
    values: Mapping[str, np.ndarray], roots: Sequence[float], starts: Sequence[float]
) -> "Plot":
    """Plot a histogram of exponents `[models, subspaces]`, sorted within each model, per layout.

    `roots` are the values of p₀ and `starts` the initial exponents, over all models.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    every = np.concatenate([part.ravel() for part in values.values()])
    edges = np.histogram_bin_edges(every, BINS).tolist()
    size = (COLUMN, 0.8 + 1.45 * len(values))
    figure, axes = panels(len(values), 1, size, sharex=True)
    for panel, (layout, part) in zip(axes[:, 0], values.items(), strict=True):
        columns = np.sort(part, axis=1).T
        for column, colour in zip(columns, palette(len(columns)), strict=True):
            panel.hist(column, edges, color=colour, alpha=0.35)
            panel.hist(column, edges, color=colour, histtype="step", linewidth=1.1)
        for root in roots:
            panel.axvline(root, **ROOT_LINE)
        for start in starts:
            panel.axvline(start, **START_LINE)
        plain(panel).set_ylabel("models", fontsize=TEXT)
        panel.yaxis.get_major_locator().set_params(integer=True)
        if len(values) > 1:
            panel.set_title(layout, fontsize=TEXT)
    axes[-1, 0].set_xlabel("exponents, sorted within each model", fontsize=TEXT)
    places = max(part.shape[1] for part in values.values())
    named = zip(_places(places), palette(places), strict=True)
    handles: list[Any] = [
        Patch(facecolor=(colour, 0.35), edgecolor=colour, label=name) for name, colour in named
    ]
    for prefix, lines, style in (("$p_{0}$", roots, ROOT_LINE), ("start", starts, START_LINE)):
        label = f"{prefix} = {', '.join(f'{value:g}' for value in lines)}"
        handles.append(Line2D([], [], label=label, **style))
    legend_above(figure, handles)
    return figure


def _over_training(model: "Model") -> "Plot":
    """Plot a line per exponent, with its name at the end."""
    columns = [name for name in model.curve.columns if OF_SUBSPACE.fullmatch(name)]
    curves = {name: model.curve[["step", name]].dropna() for name in columns}
    curves = {name: curve for name, curve in curves.items() if not curve.empty}
    if not curves:
        raise UnweaveError(
            f"the curve of {model.config.hash} has no exponents; train it for at least one step",
            subject="curve",
            value=model.config.hash,
        )
    figure, axes = panels(1, 1, (COLUMN, 2.3))
    panel = plain(axes[0, 0])
    method: Any = model.config.method
    ends = [(float(method.p0), "$p_{0}$", INK), (float(method.p), "start", FAINT)]
    panel.axhline(method.p0, **ROOT_LINE)
    panel.axhline(method.p, **START_LINE)
    for (name, curve), colour in zip(curves.items(), palette(len(curves)), strict=True):
        panel.plot(curve["step"], curve[name], color=colour, linewidth=1.1, label=name)
        ends.append((float(curve[name].iloc[-1]), f"$p_{{{name[2:]}}}$", colour))
    bottom, top = panel.get_ylim()
    last = max(curve["step"].iloc[-1] for curve in curves.values())
    name_line_ends(panel, last, sorted(ends), LINE * (top - bottom))
    panel.set_xlim(0, last)
    panel.set_ylabel("exponent", fontsize=TEXT)
    label_step_axis(panel)
    return figure


def _has_learned(model: "Model") -> bool:
    from unweave.methods import ISAVAE

    method = model.config.method
    if not isinstance(method, ISAVAE) or not method.learned or model.diverged_at[0] >= 0:
        return False
    return len(model.exponents) > 1


def _places(count: int) -> list[str]:
    """Return a name for each rank within a model.

    Example:
        >>> _places(4)
        ['smallest', '2nd', '3rd', 'largest']
    """
    between = [f"{place}{ {2: 'nd', 3: 'rd'}.get(place, 'th') }" for place in range(2, count)]
    return ["smallest", *between, "largest"] if count > 1 else ["single"]
