"""Contour plots of the density of Lp-nested priors."""

from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.errors import UnweaveError
from unweave.plots.colours import INK, ONE_HUE
from unweave.plots.plot import PAGE, SMALL, TEXT, panels

if TYPE_CHECKING:
    from unweave.plots.figure import Plot
    from unweave.priors.layouts import Layout

__all__ = ["prior_contours"]

FRACTIONS = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
"""Contour levels, as fractions of the largest density."""
POINTS = 201


def prior_contours(
    exponents: Any,
    layout: "Layout",
    latents: tuple[int, int] = (0, 1),
    *,
    scale: float = 2.0,
    reach: float = 3.0,
) -> "Plot":
    """Plot the density of Lp-nested distributions over two latents, with all others at 0.

    Contour lines are at 90, 70, 50, 30, 10 and 1 % of the largest density.

    Args:
        exponents: Exponents of one distribution, `[N]`, of a row of several, `[columns, N]`, or
            of a table, `[rows, columns, N]`.
        layout: Grouping of the latents, such as `"1,2"`; see `unweave.priors.tree_of`.
        latents: The horizontal and the vertical latent.
        scale: Scale s of the distributions; 2 with exponents of 2 is the standard normal.
        reach: Range of the axes, from `-reach` to `reach`.

    Returns:
        A matplotlib figure; save it with `.save("contours.svg")`.

    References:
        Stühmer, Turner and Nowozin, Independent Subspace Analysis for Unsupervised Learning of
        Disentangled Representations, arXiv:1909.05063, Figure 2.
    """
    from unweave.priors import tree_of

    size = tree_of(layout).num_latents
    if len(set(latents)) != 2 or not all(0 <= latent < size for latent in latents):
        raise UnweaveError.must(
            "latents", f"be two different numbers from 0 to {size - 1}", latents
        )
    table = np.asarray(exponents, np.float64)
    if not 1 <= table.ndim <= 3:
        raise UnweaveError.must(
            "exponents", "have the shape [N], [columns, N] or [rows, columns, N]", table.shape
        )
    table = table.reshape((1,) * (3 - table.ndim) + table.shape)
    rows, columns = table.shape[:2]
    line = np.linspace(-reach, reach, POINTS)
    side = min(PAGE / columns, 2.2)
    figure, axes = panels(
        rows, columns, (columns * side, rows * (side + 0.1)), sharex=True, sharey=True
    )
    for panel, own in zip(axes.flat, table.reshape(rows * columns, -1), strict=True):
        relative = _relative_density(line, own, layout, latents, scale)
        panel.contourf(line, line, relative, [*FRACTIONS, 1.001], cmap=ONE_HUE, vmin=-0.3)
        panel.contour(line, line, relative, FRACTIONS, colors=INK, linewidths=0.5)
        panel.set_aspect("equal")
        title = ", ".join(f"$p_{{{i}}}$ = {p:g}" for i, p in enumerate(own))
        panel.set_title(title, fontsize=SMALL)
    for panel in axes[-1]:
        panel.set_xlabel(f"$z_{{{latents[0]}}}$", fontsize=TEXT)
    for panel in axes[:, 0]:
        panel.set_ylabel(f"$z_{{{latents[1]}}}$", fontsize=TEXT)
    return figure


def _relative_density(
    line: np.ndarray,
    exponents: np.ndarray,
    layout: "Layout",
    latents: tuple[int, int],
    scale: float,
) -> np.ndarray:
    """Return p(z) / p(0) on a square grid, with the first latent along the columns."""
    import torch

    from unweave.priors import tree_of
    from unweave.priors.lp_nested import log_density

    codes = np.zeros((len(line), len(line), tree_of(layout).num_latents))
    codes[..., latents[0]] = line
    codes[..., latents[1]] = line[:, None]
    flat = np.concatenate([codes.reshape(len(line) ** 2, -1), np.zeros((1, codes.shape[-1]))])
    logs = log_density(torch.from_numpy(flat), torch.from_numpy(exponents), layout, scale)
    return (logs[:-1] - logs[-1]).exp().reshape(len(line), -1).numpy()
