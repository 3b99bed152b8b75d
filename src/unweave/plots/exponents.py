"""Learned exponents of priors: of many models as a histogram, of one over its training."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.errors import UnweaveError
from unweave.plots.colours import FAINT, INK, palette

if TYPE_CHECKING:
    from unweave.models.finding import Models
    from unweave.models.model import Model
    from unweave.plots.plot import Plot

__all__ = ["exponents", "histogram"]

OF_SUBSPACE = re.compile(r"p_(\d+)")
BINS = 30
ROOT_LINE: Mapping[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": ":"}
START_LINE: Mapping[str, Any] = {"color": FAINT, "linewidth": 0.9, "linestyle": "--"}


def exponents(models: "Models") -> "Plot":
    """Draw the exponents of subspaces that ISA-VAEs learned, of one or of many.

    Of many it is a histogram. Which subspace is which differs from model to model, so exponents
    are sorted within each, and a colour is that of a place: the smallest, the second, … Layouts
    have panels of their own. Of one model its exponents are drawn over training, as often as its
    curve noted them. Lines are p₀ and where learning began.

    Args:
        models: A model, a fleet, folders of saved runs, or several of these. Those that learned no
            exponents, or diverged, are left out.

    Returns:
        A matplotlib figure, to be saved with `.save("exponents.svg")`.

    References:
        Stühmer, Turner and Nowozin, Independent Subspace Analysis for Unsupervised Learning of
        Disentangled Representations, arXiv:1909.05063, Figure 7.
    """
    from unweave.methods.isa_vae import tree_for
    from unweave.models.finding import models_of

    learned = [model for model in models_of(models) if _has_learned(model)]
    if not learned:
        raise UnweaveError(
            "none of these models learned exponents; train isa_vae or isa_tc_vae with learned=True"
        )
    if len(learned) == 1:
        return _over_training(learned[0])
    by_layout: dict[str, list[np.ndarray]] = {}
    for model in learned:
        layout = str(tree_for(_method(model).layout, model.config.latents))
        by_layout.setdefault(layout, []).append(model.exponents[1:])
    methods = [_method(model) for model in learned]
    return histogram(
        {layout: np.stack(values) for layout, values in by_layout.items()},
        sorted({float(method.p0) for method in methods}),
        sorted({float(method.p) for method in methods}),
    )


def histogram(
    values: Mapping[str, np.ndarray], roots: Sequence[float], starts: Sequence[float]
) -> "Plot":
    """Draw a histogram of exponents, sorted within each model, for each layout.

    Args:
        values: Exponents of subspaces `[models, subspaces]`, by layout.
        roots: p₀, of all models together.
        starts: Where learning began, of all models together.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from unweave.plots.plot import COLUMN, TEXT, legend_above, panels, plain

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
    handles.append(Line2D([], [], label=_line_label("$p_{0}$ =", roots), **ROOT_LINE))
    handles.append(Line2D([], [], label=_line_label("start =", starts), **START_LINE))
    legend_above(figure, handles)
    return figure


def _over_training(model: "Model") -> "Plot":
    """A line per exponent, named where it ends."""
    from unweave.plots.plot import COLUMN, LINE, SMALL, TEXT, apart, panels, plain

    columns = [name for name in model.curve.columns if OF_SUBSPACE.fullmatch(name)]
    noted = {name: model.curve[["step", name]].dropna() for name in columns}
    noted = {name: curve for name, curve in noted.items() if not curve.empty}
    if not noted:
        raise UnweaveError(
            f"the curve of {model.config.hash} has no exponents; models of no steps have none"
        )
    figure, axes = panels(1, 1, (COLUMN, 2.3))
    panel = plain(axes[0, 0])
    method = _method(model)
    ends = [(float(method.p0), "$p_{0}$", INK), (float(method.p), "start", FAINT)]
    panel.axhline(method.p0, **ROOT_LINE)
    panel.axhline(method.p, **START_LINE)
    for (name, curve), colour in zip(noted.items(), palette(len(noted)), strict=True):
        panel.plot(curve["step"], curve[name], color=colour, linewidth=1.1, label=name)
        ends.append((float(curve[name].iloc[-1]), f"$p_{{{name[2:]}}}$", colour))
    ends.sort()
    bottom, top = panel.get_ylim()
    heights = apart([value for value, _, _ in ends], LINE * (top - bottom))
    last = max(curve["step"].iloc[-1] for curve in noted.values())
    for (_, words, colour), height in zip(ends, heights, strict=True):
        panel.annotate(
            words,
            (last, height),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=colour,
        )
    panel.set_xlim(0, last)
    panel.set_ylabel("exponent", fontsize=TEXT)
    panel.set_xlabel("step", fontsize=TEXT)
    panel.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def _method(model: "Model") -> Any:
    return model.config.method


def _has_learned(model: "Model") -> bool:
    from unweave.methods import ISAVAE

    method = model.config.method
    if not isinstance(method, ISAVAE) or not method.learned or model.diverged_at[0] >= 0:
        return False
    return len(model.exponents) > 1


def _places(count: int) -> list[str]:
    """What the places within a model are called.

    Example:
        >>> _places(4)
        ['smallest', '2nd', '3rd', 'largest']
    """
    between = [f"{place}{ {2: 'nd', 3: 'rd'}.get(place, 'th') }" for place in range(2, count)]
    return ["smallest", *between, "largest"] if count > 1 else ["the only one"]


def _line_label(words: str, values: Sequence[float]) -> str:
    return f"{words} {', '.join(f'{value:g}' for value in values)}"
