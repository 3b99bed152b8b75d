"""Which subspace carries what, of models whose prior has subspaces.

Shapes: d latents, K factors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.errors import UnweaveError
from unweave.metrics.base import MetricError, table
from unweave.plots.colours import FAINT, GREY, INK, ONE_HUE, PALETTE
from unweave.plots.drawn_codes import Seen, check_model, known_shares, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unweave.data.dataset import Dataset
    from unweave.models.model import Model
    from unweave.plots.plot import Plot

__all__ = ["Subspace", "shares_known", "subspaces", "subspaces_of"]

ROW, GAP, BARS, LABELS, HEADINGS = 0.17, 0.5, 0.85, 1.05, 0.75
"""Inches of a latent's height; rows between subspaces; inches of bars, of labels, and above."""
CELL = 0.42
BRACKET = -21
"""Points from the cells, to the left of the names of latents."""
DARK = 0.6
"""The share from which numbers on it are white."""
NOT_IN_USE = "#F1F1F1"
LEAST = 0.1
"""Nats that bars have room for, so that next to nothing looks like it."""


@dataclass(frozen=True)
class Subspace:
    """Latents that are together in a prior.

    Args:
        latents: Their numbers.
        exponents: Of the nodes of the layout that make the subspace, by their numbers, the one of
            the whole subspace first. A latent alone has that of the root, of number 0.
    """

    latents: tuple[int, ...]
    exponents: dict[int, float]


def subspaces(model: "Model", data: "Dataset", *, seed: int = 0) -> "Plot":
    """Draw what each latent knows of the factors and how much it says, subspace by subspace.

    Cells are the share of a factor's entropy that a latent knows, from 0 to 1: their mutual
    information less what chance would show, as in `followed_factors`. Bars are the KL divergence
    of the latent from N(0, 1), in nats; the prior's own has no part that is one latent's. Latents
    that say nothing, at most 0.01 nats, are grey. Data without factors have bars only.

    Args:
        model: An ISA-VAE or ISA-TCVAE.
        data: What it was trained on.
        seed: Draws the images that are encoded.

    Returns:
        A matplotlib figure, to be saved with `.save("subspaces.svg")`.
    """
    from unweave.plots.plot import panels

    groups = subspaces_of(model)
    seen = look(model, data, seed=seed)
    known, names = shares_known(seen)
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
    if names:
        _cells(axes[0, 0], known, names, seen, groups, edges)
    _bars(axes[0, -1], seen, groups, edges)
    _rows(axes[0, 0], seen, groups, edges)
    axes[0, 0].set_ylim(height, 0)
    return figure


def subspaces_of(model: "Model") -> list[Subspace]:
    """The subspaces of a model's prior, in the order of its latents.

    Args:
        model: An ISA-VAE or ISA-TCVAE.
    """
    from unweave.methods.isa_vae import ISAVAE, tree_for

    check_model(model)
    method = model.config.method
    if not isinstance(method, ISAVAE):
        raise UnweaveError(
            f"{method.name} models have no subspaces; train isa_vae or isa_tc_vae for that"
        )
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


def shares_known(seen: Seen) -> tuple[np.ndarray, list[str]]:
    """The share that each latent knows of each factor that varies, `[d, K]`, and their names."""
    nothing = np.zeros((seen.means.shape[1], 0))
    if seen.factors is None:
        return nothing, []
    try:
        rows = table(seen.means, seen.factors)
    except MetricError:  # no factor varies
        return nothing, []
    return known_shares(rows), [seen.names[k] for k in rows.columns]


def _edges(sizes: Sequence[int]) -> list[np.ndarray]:
    """Where the rows of each subspace begin and end, in rows from the top.

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
    seen: Seen,
    groups: Sequence[Subspace],
    edges: Sequence[np.ndarray],
) -> None:
    from unweave.plots.plot import SMALL, TEXT

    for group, rows in zip(groups, edges, strict=True):
        for latent, top in zip(group.latents, rows[:-1], strict=True):
            box = (0, len(names), top + 1, top)
            if not seen.active[latent]:
                panel.fill_between(box[:2], *box[2:], color=NOT_IN_USE, linewidth=0)
                continue
            panel.imshow(
                known[latent : latent + 1], ONE_HUE, vmin=0, vmax=1, aspect="auto", extent=box
            )
            for k, share in enumerate(known[latent]):
                ink = "white" if share > DARK else INK
                centred: dict[str, Any] = {"ha": "center", "va": "center"}
                place = k + 0.5, top + 0.5
                panel.text(*place, f"{share:.2f}", fontsize=SMALL, color=ink, **centred)
    panel.set_xlim(0, len(names))
    panel.set_xticks(np.arange(len(names)) + 0.5, names, fontsize=SMALL, rotation=35, ha="right")
    panel.set_title("share of a factor known", fontsize=TEXT)
    panel.spines[:].set_visible(False)


def _bars(
    panel: "Axes", seen: Seen, groups: Sequence[Subspace], edges: Sequence[np.ndarray]
) -> None:
    from unweave.plots.plot import TEXT, plain

    latents = [latent for group in groups for latent in group.latents]
    middles = np.concatenate([rows[:-1] + 0.5 for rows in edges])
    colours = [PALETTE[0] if seen.active[latent] else GREY for latent in latents]
    plain(panel).barh(middles, seen.amounts[latents], 0.72, color=colours)
    panel.set_xlim(0, max(panel.get_xlim()[1], LEAST))
    panel.tick_params(axis="y", length=0)
    panel.set_title("KL [nats]", fontsize=TEXT)


def _rows(
    panel: "Axes", seen: Seen, groups: Sequence[Subspace], edges: Sequence[np.ndarray]
) -> None:
    """Names of latents, and for each subspace a bracket with its exponents."""
    from matplotlib.transforms import ScaledTranslation

    from unweave.plots.plot import SMALL

    latents = [latent for group in groups for latent in group.latents]
    middles = np.concatenate([rows[:-1] + 0.5 for rows in edges])
    panel.set_yticks(middles, [f"z{latent}" for latent in latents], fontsize=SMALL)
    for label, latent in zip(panel.get_yticklabels(), latents, strict=True):
        label.set_color(INK if seen.active[latent] else GREY)
    panel.tick_params(axis="y", length=0)
    figure: Any = panel.figure
    aside = ScaledTranslation(BRACKET / 72, 0, figure.dpi_scale_trans)
    for group, rows in zip(groups, edges, strict=True):
        on = any(seen.active[latent] for latent in group.latents)
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
