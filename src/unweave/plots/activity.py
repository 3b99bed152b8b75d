"""Plots of latent activity: the noise of each latent and the variance of its mean."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.activity import NOISE, VARIANCE, noise_and_signal
from unweave.errors import UnweaveError
from unweave.plots.colours import GREY, ONE_HUE, PALETTE
from unweave.plots.drawn_codes import check_data, check_model, draw_codes, has_prior
from unweave.plots.plot import COLUMN, SMALL, TEXT, legend_above, panels, plain, write_numbers
from unweave.select.activity import ALL, ROWS, member_activity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unweave.data.dataset import Dataset
    from unweave.models.model import Model
    from unweave.plots.figure import Plot

__all__ = ["activity", "polarised", "regimes"]

HEIGHT, CELL = 1.35, 0.2
"""Height of a panel and of a group's row, in inches."""
DARK = 0.6
"""Shade, from 0 to 1, above which numbers are written in white."""
CLEAR = 1.0
"""Smallest |log Δ| of a latent that counts as active or passive; 1 means a ratio of e."""
REGIMES = {"active": PALETTE[0], "mixed": PALETTE[4], "passive": GREY}


def activity(
    model: "Model",
    data: "Dataset",
    *,
    by: str | int | Any = None,
    rows: int = ROWS,
    seed: int = 0,
) -> "Plot":
    """Plot log Δ of each latent and the variance of its mean, for all members of an ensemble.

    Latents of the other members are plotted at the latent of the first member that they match, so
    points of members that agree coincide; a line joins the members. A latent is active if log Δ is
    far below 0 and its mean varies. If the mean does not vary, the latent is unused. Latents are
    sorted by log Δ in the first member, smallest first.

    Args:
        model: An ensemble, or any other model that has a prior.
        data: Data set that the model was trained on.
        by: Groups of images, see `uw.select.member_activity`. Adds a table of the mean σ² of the
            first member in each group, dark where a latent is active.
        rows: Number of images to encode.
        seed: Random seed for sampling these images.

    Returns:
        A matplotlib figure; save it with `.save("activity.svg")`.
    """
    check_data(model, data)
    found = member_activity(model, data, by=by, rows=rows, seed=seed)
    every = found.table[found.table["group"] == ALL]
    profile = every.pivot_table(index="member", columns="latent", values="log_delta")
    signal = every.pivot_table(index="member", columns="latent", values="signal")
    order = profile.loc[0].sort_values(kind="stable").index
    groups = found.table[(found.table["group"] != ALL) & (found.table["member"] == 0)]
    names = groups["group"].unique()
    heights = [HEIGHT, HEIGHT] + [CELL * len(names)] * (len(names) > 0)
    size = (COLUMN, sum(heights) + 0.75 + 0.35 * (len(names) > 0))
    figure, axes = panels(
        len(heights), 1, size, sharex=True, gridspec_kw={"height_ratios": heights}
    )
    _points(plain(axes[0, 0]), profile[order])
    axes[0, 0].axhline(0, color=GREY, linewidth=0.6, linestyle=":", zorder=0)
    axes[0, 0].set_ylabel("log Δ", fontsize=TEXT)
    _points(plain(axes[1, 0]), signal[order])
    axes[1, 0].set_ylabel("variance of μ", fontsize=TEXT)
    axes[1, 0].set_ylim(bottom=min(0, axes[1, 0].get_ylim()[0]))
    if len(names):
        noise = groups.pivot_table(index="group", columns="latent", values="noise")
        _cells(axes[2, 0], noise.loc[names, order])
        axes[2, 0].set_ylabel(f"σ² by {found.by}", fontsize=TEXT)
    axes[-1, 0].set_xticks(range(len(order)), [str(latent) for latent in order])
    axes[-1, 0].set_xlabel("latent of the first member", fontsize=TEXT)
    if len(profile) > 1:
        others = len(profile) - 1
        label = "the other member" if others == 1 else f"the other {others} members"
        _dot_legend(figure, PALETTE[0], {"first member": PALETTE[0], label: "white"})
    return figure


def _points(panel: "Axes", values: pd.DataFrame) -> None:
    """Plot a ring per member, a dot for the first one, and a line joining the members."""
    for x, column in enumerate(values):
        heights = values[column].to_numpy()
        panel.plot([x, x], [heights.min(), heights.max()], color=PALETTE[0], linewidth=1)
        others = heights[1:]
        panel.scatter(
            [x] * len(others), others, s=20, facecolor="white", edgecolor=PALETTE[0], zorder=2
        )
        panel.scatter([x], heights[:1], s=20, color=PALETTE[0], zorder=3)


def _cells(panel: "Axes", noise: pd.DataFrame) -> None:
    """Write the noise of each group and latent into a table, darker where it is smaller."""
    shade = np.clip(1 - noise.to_numpy() / (2 * NOISE.threshold), 0, 1)
    panel.imshow(shade, cmap=ONE_HUE, vmin=0, vmax=1, aspect="auto")
    write_numbers(panel, noise.to_numpy(), "{:.2f}".format, shade > DARK)
    panel.set_yticks(range(len(noise)), [str(name) for name in noise.index])
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)


def polarised(model: "Model", data: "Dataset", *, seed: int = 0) -> "Plot":
    """Plot the mean posterior variance of each latent next to the variance of its mean.

    An active latent has little noise (σ² ≪ 1) and a mean that varies like the prior. A passive
    latent equals the prior (σ² ≈ 1) and its mean stays at 0. A mixed latent is in between, or
    active for some images and passive for others. Latents are sorted by KL divergence, largest
    first.

    Args:
        model: A trained model.
        data: Data set that the model was trained on.
        seed: Random seed for sampling the images to encode.

    Returns:
        A matplotlib figure; save it with `.save("polarised.svg")`.

    References:
        Rolínek et al., Variational Autoencoders Pursue PCA Directions (by Accident),
        arXiv:1812.06775; Bonheme and Grzes, Be More Active! Understanding the Differences between
        Mean and Sampled Representations of Variational Autoencoders, arXiv:2109.12679.
    """
    check_model(model)
    if not has_prior(model):
        raise UnweaveError.must("model", "have posterior noise", model.config.method.name)
    drawn = draw_codes(model, data, seed=seed)
    kinds = regimes(drawn.means, drawn.logvars)
    found = noise_and_signal(drawn.means, drawn.logvars)
    figure, axes = panels(1, 1, (COLUMN, 0.95 + 0.19 * len(kinds)))
    panel = plain(axes[0, 0])
    for y, latent in enumerate(drawn.order):
        colour = REGIMES[kinds[latent]]
        ends = [found["noise"][latent], found["signal"][latent]]
        panel.plot(ends, [y, y], color=colour, linewidth=1, zorder=1)
        panel.scatter(ends[:1], [y], s=22, facecolor="white", edgecolor=colour, zorder=2)
        panel.scatter(ends[1:], [y], s=22, color=colour, zorder=3)
    names = [f"{drawn.name(latent)}, {kinds[latent]}" for latent in drawn.order]
    panel.set_yticks(range(len(names)), names, fontsize=SMALL)
    panel.invert_yaxis()
    panel.axvline(1, color=GREY, linewidth=0.6, linestyle=":", zorder=0)
    panel.set_xlim(left=-0.04)
    panel.set_xlabel("variance", fontsize=TEXT)
    faces = {"noise, mean of σ²": "white", "signal, variance of μ": "0.3"}
    _dot_legend(figure, "0.3", faces)
    return figure


def regimes(means: np.ndarray, logvars: np.ndarray) -> list[str]:
    """Classify each latent as `"active"`, `"passive"` or `"mixed"`.

    The classes follow log Δ of `uw.metrics.polarised_regime`, the share of noise in a latent's KL
    divergence. A latent is active if log Δ is at most -1 and the variance of its mean exceeds
    0.01, and passive if log Δ is at least 1.

    Args:
        means: Posterior means `[n, d]`.
        logvars: Posterior log-variances `[n, d]`.

    Example:
        >>> mu = np.tile([[1.0, 0.0, 0.7]], (100, 1)) * np.tile([[1.0], [-1.0]], (50, 1))
        >>> regimes(mu, np.log(np.tile([0.01, 0.99, 0.5], (100, 1))))
        ['active', 'passive', 'mixed']
    """
    found = noise_and_signal(means, logvars)
    share, varies = found["log_delta"], VARIANCE.holds(found["signal"])
    kinds = np.where(share >= CLEAR, "passive", "mixed")
    return [str(kind) for kind in np.where((share <= -CLEAR) & varies, "active", kinds)]


def _dot_legend(figure: "Plot", edge: str, faces: Mapping[str, str]) -> None:
    """Add a legend for the dot colours above all panels."""
    from matplotlib.lines import Line2D

    dots: dict[str, Any] = {"marker": "o", "markersize": 4.5, "linestyle": ""}
    handles = [
        Line2D([], [], markerfacecolor=face, markeredgecolor=edge, label=label, **dots)
        for label, face in faces.items()
    ]
    legend_above(figure, handles, 2)
