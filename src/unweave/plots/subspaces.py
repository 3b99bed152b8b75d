"""Plots of what each subspace encodes, for models whose prior has subspaces.

Shapes: d latents, K factors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.errors import UnweaveError
from unweave.metrics.base import MetricError, table
from unweave.plots.colours import FAINT, GREY, INK, ONE_HUE, PALETTE
from unweave.plots.drawn_codes import DrawnCodes, check_model, draw_codes, known_shares
from unweave.plots.plot import SMALL, TEXT, panels, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unweave.data.dataset import Dataset
    from unweave.models.model import Model
    from unweave.plots.figure import Plot

__all__ = ["Subspace", "shares_known", "subspaces", "subspaces_of"]

ROW, GAP, BARS, LABELS, HEADINGS = 0.17, 0.5, 0.85, 1.05, 0.75
"""Height of a latent (inches), gap between subspaces (rows), and the width of the bars, the width
of the labels and the height of the headings (inches)."""
CELL = 0.42
BRACKET = -21
"""Horizontal offset of the brackets from the cells, in points."""
DARK = 0.6
"""Share above which numbers are written in white."""
NOT_IN_USE = "#F1F1F1"
LEAST = 0.1
"""Smallest upper limit of the KL axis, in nats, so that tiny values look tiny."""


@dataclass(frozen=True)
class Subspace:
    """A group of latents that form one subspace of a prior."""

    latents: tuple[int, ...]  # numbers of the latents
    # Exponents of the layout nodes inside the subspace, by node number, starting with the node of
    # the whole subspace. A single latent has the exponent of the root, node 0.
    exponents: dict[int, float]


def subspaces(model: "Model", data: "Dataset", *, seed: int = 0) -> "Plot":
    """Plot which factors each latent encodes and how informative it is, grouped by subspace.

    Cells show the share of a factor's entropy that a latent explains, from 0 to 1: their mutual
    information corrected for chance, as in `followed_factors`. Bars show the KL divergence of the
    latent from N(0, 1) in nats, because the KL divergence from the prior does not split by latent.
    Inactive latents (at most 0.01 nats) are grey. Without factors, only the bars are plotted.

    Args:
        model: An ISA-VAE or ISA-TCVAE.
        data: Data set that the model was trained on.
        seed: Random seed for sampling the images to encode.

    Returns:
        A matplotlib figure; save it with `.save("subspaces.svg")`.
    """
    groups = subspaces_of(model)
    drawn = draw_codes(model, data, seed=seed)
    known, names = shares_known(drawn)
    edges = _edges([len(group.latents) for group in groups])
    height = edges[-1][-1]
    widths = [CELL * len(names), BARS] if names else [2 * BARS]
    figure, axes = panels(
        1,
        len(widths),
        (LABELS + sum(widths), HEADINGS + ROW * height),
        sharey=True,
        gridspec_kw={"width_ratios": widths},
    )
    tops = {
        latent: float(top)
        for group, rows in zip(groups, edges, strict=True)
        for latent, top in zip(group.latents, rows[:-1], strict=True)
    }
    if names:
        _cells(axes[0, 0], known, names, drawn, tops)
    _bars(axes[0, -1], drawn, tops)
    _names(axes[0, 0], drawn, tops)
    _brackets(axes[0, 0], drawn, groups, edges)
    axes[0, 0].set_ylim(height, 0)
    return figure


def subspaces_of(model: "Model") -> list[Subspace]:
    """Return the subspaces of a model's prior, in the order of its latents.

    Args:
        model: An ISA-VAE or ISA-TCVAE.
    """
    from unweave.methods.isa_vae import ISAVAE, tree_for

    check_model(model)
    method = model.config.method
    if not isinstance(method, ISAVAE):
        raise UnweaveError.must("model", "be trained with isa_vae or isa_tc_vae", method.name)
    tree = tree_for(method.layout, model.config.latents)
    values = dict(enumerate(model.exponents.tolist()))
    found, latent, node = [], 0, 1
    for run in tree.runs:
        for _ in range(run.count):
            nodes = range(node, node + run.num_exponents) or range(1)
            latents = tuple(range(latent, latent + run.num_latents))
            found.append(Subspace(latents, {k: values[k] for k in nodes}))
            latent, node = latent + run.num_latents, node + run.num_exponents
    return found


def shares_known(drawn: DrawnCodes) -> tuple[np.ndarray, list[str]]:
    """Return the share of each varying factor that each latent explains, `[d, K]`, with names."""
    nothing = np.zeros((drawn.means.shape[1], 0))
    if drawn.factors is None:
        return nothing, []
    try:
        rows = table(drawn.means, drawn.factors)
    except MetricError:  # no factor varies
        return nothing, []
    return known_shares(rows), [drawn.names[k] for k in rows.columns]


def _edges(sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the row boundaries of each subspace, in rows from the top.

    Example:
        >>> [edges.tolist() for edges in _edges([2, 1])]
        [[0.0, 1.0, 2.0], [2.5, 3.5]]
    """
    tops = np.cumsum([0, *sizes[:-1]]) + GAP * np.arange(len(sizes))
    return [top + np.arange(size + 1.0) for top, size in zip(tops, sizes, strict=True)]


def _cells(
    panel: "Axes",
    known: np.ndarray,
    names: Sequence[str],
    drawn: DrawnCodes,
    tops: Mapping[int, float],
) -> None:
    for latent, top in tops.items():
        box = (0, len(names), top + 1, top)
        if not drawn.active[latent]:
            panel.fill_between(box[:2], *box[2:], color=NOT_IN_USE, linewidth=0)
            continue
        row = known[latent : latent + 1]
        panel.imshow(row, ONE_HUE, vmin=0, vmax=1, aspect="auto", extent=box)
        for k, share in enumerate(known[latent]):
            ink = "white" if share > DARK else INK
            centred: dict[str, Any] = {"ha": "center", "va": "center"}
            panel.text(k + 0.5, top + 0.5, f"{share:.2f}", fontsize=SMALL, color=ink, **centred)
    panel.set_xlim(0, len(names))
    panel.set_xticks(np.arange(len(names)) + 0.5, names, fontsize=SMALL, rotation=35, ha="right")
    panel.set_title("share of factor explained", fontsize=TEXT)
    panel.spines[:].set_visible(False)


def _bars(panel: "Axes", drawn: DrawnCodes, tops: Mapping[int, float]) -> None:
    latents, middles = list(tops), np.array(list(tops.values())) + 0.5
    colours = [PALETTE[0] if drawn.active[latent] else GREY for latent in latents]
    plain(panel).barh(middles, drawn.amounts[latents], 0.72, color=colours)
    panel.set_xlim(0, max(panel.get_xlim()[1], LEAST))
    panel.tick_params(axis="y", length=0)
    panel.set_title("KL [nats]", fontsize=TEXT)


def _names(panel: "Axes", drawn: DrawnCodes, tops: Mapping[int, float]) -> None:
    middles = np.array(list(tops.values())) + 0.5
    panel.set_yticks(middles, [f"z{latent}" for latent in tops], fontsize=SMALL)
    for label, latent in zip(panel.get_yticklabels(), tops, strict=True):
        label.set_color(INK if drawn.active[latent] else GREY)
    panel.tick_params(axis="y", length=0)


def _brackets(
    panel: "Axes", drawn: DrawnCodes, groups: Sequence[Subspace], edges: Sequence[np.ndarray]
) -> None:
    """Draw a bracket with its exponents next to each subspace."""
    from matplotlib.transforms import ScaledTranslation

    figure: Any = panel.figure
    aside = ScaledTranslation(BRACKET / 72, 0, figure.dpi_scale_trans)
    for group, rows in zip(groups, edges, strict=True):
        on = any(drawn.active[latent] for latent in group.latents)
        panel.plot(
            [0, 0],
            [rows[0] + 0.1, rows[-1] - 0.1],
            color=FAINT if on else GREY,
            linewidth=1.2,
            clip_on=False,
            transform=panel.get_yaxis_transform() + aside,
        )
        panel.annotate(
            "\n".join(f"$p_{{{k}}}$ = {p:.2f}" for k, p in group.exponents.items()),
            (0, (rows[0] + rows[-1]) / 2),
            (BRACKET - 4, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=SMALL,
            color=INK if on else FAINT,
        )
