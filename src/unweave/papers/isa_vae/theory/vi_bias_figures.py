"""Figures of the four experiments, and an animation of the last.

As in the paper, the truth is blue and the result of variational inference is red.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.papers.isa_vae.theory import factor_analysis as fa
from unweave.papers.isa_vae.theory import ica, vi_bias
from unweave.papers.plots import labelled
from unweave.papers.theory import Ascent
from unweave.plots.colours import FAINT, GREY, MARKERS, PALETTE, palette

if TYPE_CHECKING:
    from unweave.plots.animation import Animation
    from unweave.plots.figure import Plot

__all__ = [
    "animate_components",
    "draw_components",
    "draw_effect_of_beta",
    "draw_over_complete",
    "draw_rotation",
]

TRUE, LEARNED = PALETTE[:2]
LENGTHS = ("w₁", "w₂", "w₃")
CIRCLE = np.stack([f(np.linspace(0, 2 * np.pi, 121)) for f in (np.cos, np.sin)])
WINDOW = 13.0
EXTENT = np.array([-3.0, 3.0])
"""Ends of the line that represents a component, in multiples of its length."""
DOTS_PER_INCH, MILLISECONDS = 80, 150


def draw_rotation() -> "Plot":
    """Draw experiment 1: weights, posteriors, and free energy over the rotation."""
    from unweave.plots.plot import PAGE, panels, plain

    figure, axes = panels(1, 3, (PAGE, 2.5))
    weights, posteriors, nats = map(plain, axes[0])
    for angle, style, name in ((0.0, "-", "0"), (np.pi / 4, "--", "π/4")):
        rotated = vi_bias.rotated(angle)
        _rays(weights, rotated, color=TRUE, linestyle=style)
        found = fa.posterior(rotated, vi_bias.ML_NOISE)
        wide = {"linewidth": 2.4, "linestyle": style}
        _ellipse(posteriors, found.covariance, color=TRUE, **wide)
        _ellipse(posteriors, np.diag(found.variances), color=LEARNED, linestyle=style)
        weights.plot([], [], color=FAINT, linestyle=style, label=f"θ = {name}")
    table = vi_bias.rotation()
    _bound(nats, table["angle"], table)
    nats.set_xticks(np.arange(5) * np.pi / 4, ["0", "π/4", "π/2", "3π/4", "π"])
    for panel in (weights, posteriors):
        panel.set_aspect("equal", adjustable="datalim")
    labelled(weights, "weights", "x₁", "x₂")
    labelled(posteriors, "posteriors", "z₁", "z₂")
    labelled(nats, "all of the data", "rotation θ", "nats")
    _one_legend(figure, weights, nats)
    return figure


def draw_over_complete() -> "Plot":
    """Draw experiment 2: free energy over a, and training from a = ½."""
    from unweave.plots.plot import PAGE, panels, plain

    figure, axes = panels(1, 2, (0.75 * PAGE, 2.3))
    nats, lengths = map(plain, axes[0])
    table = vi_bias.over_complete()
    _bound(nats, table["a"], table)
    _norms(lengths, vi_bias.learned_spare(steps=12))
    labelled(nats, "all of the data", "a", "nats")
    labelled(lengths, "learned from a = ½", "step", "length of weights")
    _one_legend(figure, nats, lengths)
    return figure


def draw_effect_of_beta(betas: Sequence[float] = vi_bias.BETAS) -> "Plot":
    """Draw experiment 3: free energy over the rotation, posteriors, lengths of free weights."""
    from unweave.plots.plot import PAGE, panels, plain

    figure, axes = panels(1, 3, (PAGE, 2.5))
    nats, posteriors, lengths = map(plain, axes[0])
    colours = palette(len(betas))
    for beta, colour in zip(betas, colours, strict=True):
        table = vi_bias.rotation([beta])
        nats.plot(table["angle"], -table["gap"], color=colour, label=f"β = {beta:g}")
        found = fa.posterior(vi_bias.ML_WEIGHTS, vi_bias.ML_NOISE, beta)
        _ellipse(posteriors, found.covariance, color=colour)
    nats.set_xticks(np.arange(5) * np.pi / 4, ["0", "π/4", "π/2", "3π/4", "π"])
    posteriors.set_aspect("equal", adjustable="datalim")
    curve = np.linspace(min(1, *betas), max(20, *betas), 200)
    free, marked = (np.stack([vi_bias.free_norms(b) for b in bs]) for bs in (curve, betas))
    for k, style in enumerate(("-", "--")):
        lengths.plot(curve, free[:, k], style, color=FAINT, label=LENGTHS[k])
        lengths.scatter(betas, marked[:, k], c=colours, s=16, zorder=3)
    labelled(nats, "same directions", "rotation θ", "free energy relative to its best [nats]")
    labelled(posteriors, "posteriors widen", "z₁", "z₂")
    labelled(lengths, "free weights shrink", "β", "length of weights")
    _one_legend(figure, nats, lengths)
    return figure


def draw_components(
    data: ica.Sparse, learned: Mapping[float, Ascent], budget: int = vi_bias.BUDGET
) -> "Plot":
    """Draw Figure 1: true and learned components at a step, and their lengths after every step."""
    from unweave.plots.plot import PAGE, panels, plain

    figure, axes = panels(2, len(learned), (min(PAGE, 0.4 + 2.6 * len(learned)), 4.6))
    for (above, below), (beta, way) in zip(axes.T, learned.items(), strict=True):
        step = min(budget, len(way.weights) - 1)
        _scene(plain(above), data, way.weights[step])
        _norms(plain(below), way)
        below.axvline(step, color=GREY, linewidth=0.8, zorder=0)
        labelled(above, f"β = {beta:g}, step {step:,}", "x₁", "x₂")
        labelled(below, "", "step", "length of weights")
    _one_legend(figure, axes[0, 0], axes[1, 0])
    return figure


def animate_components(
    data: ica.Sparse, learned: Mapping[float, Ascent], frames: int = 30
) -> "Animation":
    """Animate the components of Figure 1 during training, with a panel for each β."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    from unweave.plots.animation import Animation
    from unweave.plots.plot import TEXT, panels, plain

    figure, axes = panels(1, len(learned), (2.4 * len(learned), 2.6))
    figure.set_dpi(DOTS_PER_INCH)
    canvas = FigureCanvasAgg(figure)
    lines = [_scene(plain(panel), data, data.weights) for panel in axes[0]]
    last = min(len(way.weights) for way in learned.values()) - 1
    pictures = []
    for step in np.linspace(0, last, frames).round().astype(int):
        for panel, drawn, (beta, way) in zip(axes[0], lines, learned.items(), strict=True):
            for line, weights in zip(drawn, way.weights[step].T, strict=True):
                line.set_data(*(np.outer(weights, EXTENT)))
            panel.set_title(f"β = {beta:g}, step {step:,}", fontsize=TEXT)
        canvas.draw()
        # Fix the layout after the first frame, so that panels do not move.
        figure.set_layout_engine("none")
        pictures.append(Image.fromarray(np.array(canvas.buffer_rgba())).convert("RGB"))
    return Animation([*pictures, *pictures[-1:] * (frames // 3)], MILLISECONDS)


def _scene(panel: Any, data: ica.Sparse, weights: np.ndarray) -> list[Any]:
    """Draw data, true components and learned components; return the lines of the latter."""
    panel.scatter(*data.observed.T, s=3, color=TRUE, alpha=0.4, linewidths=0)
    for k, true in enumerate(data.weights.T):
        label = None if k else "true"
        panel.plot(*np.outer(true, EXTENT), color=TRUE, linewidth=1, label=label)
    drawn = [
        panel.plot(*np.outer(column, EXTENT), color=LEARNED, linewidth=2)[0]
        for column in weights.T
    ]
    drawn[0].set_label("learned")
    panel.set(xlim=(-WINDOW, WINDOW), ylim=(-WINDOW, WINDOW), aspect="equal")
    return drawn


def _rays(panel: Any, weights: np.ndarray, **style: Any) -> None:
    """Draw a line from 0 for each column."""
    for x, y in weights.T:
        panel.plot([0, x], [0, y], **style)


def _norms(panel: Any, way: Ascent) -> None:
    """Draw the length of each component after every step; lines also differ in markers."""
    from matplotlib.ticker import MaxNLocator

    steps = np.unique(np.linspace(0, len(way.norms) - 1, 200).round().astype(int))
    apart = max(1, len(steps) // 6)
    for k, norms in enumerate(way.norms.T):
        style = {"color": PALETTE[k + 2], "marker": MARKERS[k], "markersize": 3.5}
        marks = (k * apart // 3, apart)
        panel.plot(steps, norms[steps], markevery=marks, label=LENGTHS[k], **style)
    panel.set_ylim(-0.04 * way.norms.max(), 1.05 * way.norms.max())
    panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    panel.xaxis.set_major_formatter("{x:,.0f}")


def _bound(panel: Any, x: Any, table: pd.DataFrame) -> None:
    panel.plot(x, table["log_likelihood"], color=TRUE, label="true, log-likelihood")
    panel.plot(x, table["free_energy"], color=LEARNED, label="factorised, free energy")


def _ellipse(panel: Any, covariance: np.ndarray, **style: Any) -> None:
    """Draw the ellipse of one standard deviation around 0."""
    panel.plot(*(np.linalg.cholesky(covariance) @ CIRCLE), **style)


def _one_legend(figure: "Plot", *panels: Any) -> None:
    """Draw one legend above all panels."""
    from unweave.plots.plot import legend_above

    handles = [*chain(*(panel.get_legend_handles_labels()[0] for panel in panels))]
    legend_above(figure, handles, len(handles), columnspacing=1.2)
