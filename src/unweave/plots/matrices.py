"""Heat maps of codes × factors: the matrices behind MIG, DCI and the FactorVAE score."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.errors import DataError, UnknownNameError
from unweave.plots.colours import ONE_HUE
from unweave.plots.plot import SMALL, TEXT, panels, write_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unweave.plots.figure import Plot

__all__ = ["MATRICES", "heat_map", "matrices"]

CELL_WIDTH, CELL_HEIGHT = 0.42, 0.21
LABELS, GAP, HEADINGS = 0.4, 0.12, 0.85
PAPER_WIDTH = 7.2
LUMINANCE = (0.2126, 0.7152, 0.0722)
"""Weights of red, green and blue in the luminance, from ITU-R BT.709."""


MATRICES: Mapping[str, tuple[str, str]] = {
    "importance": ("DCI importance", ".2f"),
    "information": ("Mutual information (nats)", ".2f"),
    "votes": ("FactorVAE votes", ".0f"),
}
"""Panel title and number format of each kind of matrix."""


def matrices(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[str] = tuple(MATRICES),
) -> "Plot":
    """Compute and plot the codes × factors matrices, side by side if the page is wide enough.

    Args:
        codes: Codes `[n, d]`.
        factors: Factors `[n, K]`; constant factors are left out.
        seed: Random seed of the metrics.
        names: Names of the K factors.
        kinds: Matrices to plot, out of `MATRICES` (default: all).

    Returns:
        A matplotlib figure; save it with `.save("matrices.svg")`.
    """
    from unweave.metrics import importance_matrix, information_matrix, vote_matrix
    from unweave.metrics.base import table

    functions: Mapping[str, Callable[..., np.ndarray]] = {
        "importance": importance_matrix,
        "information": information_matrix,
        "votes": vote_matrix,
    }
    columns = table(codes, factors).columns
    given = names if names is not None else [f"v{k}" for k in range(max(columns) + 1)]
    if len(given) <= max(columns):
        raise DataError.must(
            "names", f"have one entry per factor ({max(columns) + 1})", len(given)
        )
    labels = [given[k] for k in columns]
    return _draw({kind: functions[_known(kind)](codes, factors, seed) for kind in kinds}, labels)


def heat_map(matrix: Any, kind: str, names: Sequence[str] | None = None) -> "Plot":
    """Plot one matrix as a heat map.

    Args:
        matrix: Matrix `[d, K]`, as returned by `uw.metrics.importance_matrix`,
            `information_matrix` and `vote_matrix`.
        kind: Kind of matrix, out of `MATRICES`.
        names: Names of the K factors.

    Returns:
        A matplotlib figure; save it with `.save("matrix.svg")`.

    Example:
        >>> figure = heat_map([[0.9, 0.1], [0.1, 0.9]], "importance", ["shape", "scale"])
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['0.90', '0.10', '0.10', '0.90']
    """
    matrix = np.asarray(matrix, dtype=float)
    if matrix.ndim != 2 or matrix.size == 0:
        raise DataError.must("matrix", "have the shape [codes, factors]", matrix.shape)
    labels = list(names) if names is not None else [f"v{k}" for k in range(matrix.shape[1])]
    if len(labels) != matrix.shape[1]:
        raise DataError.must(
            "names", f"have one entry per factor ({matrix.shape[1]})", len(labels)
        )
    return _draw({_known(kind): matrix}, labels)


def _known(kind: str) -> str:
    if kind not in MATRICES:
        raise UnknownNameError("matrix", kind, MATRICES)
    return kind


def _draw(drawn: Mapping[str, np.ndarray], names: Sequence[str]) -> "Plot":
    codes, factors = next(iter(drawn.values())).shape
    panel = factors * CELL_WIDTH + GAP
    beside = LABELS + len(drawn) * panel <= PAPER_WIDTH
    rows, columns = (1, len(drawn)) if beside else (len(drawn), 1)
    size = LABELS + columns * panel, rows * (codes * CELL_HEIGHT + HEADINGS)
    figure, axes = panels(rows, columns, size, sharey=True)
    for place, (kind, matrix) in zip(axes.flat, drawn.items(), strict=True):
        _panel(place, matrix, kind, names)
    return figure


def _panel(axes: "Axes", matrix: np.ndarray, kind: str, names: Sequence[str]) -> None:
    title, digits = MATRICES[kind]
    top = max(float(matrix.max()), 1e-12)
    image = axes.imshow(matrix, cmap=ONE_HUE, vmin=0, vmax=top, aspect="auto")
    axes.set_title(title, fontsize=TEXT)
    axes.set_xticks(range(matrix.shape[1]), names, fontsize=SMALL, rotation=35, ha="right")
    axes.set_yticks(range(len(matrix)), [f"z{j}" for j in range(len(matrix))], fontsize=SMALL)
    axes.tick_params(length=2, pad=1.5)
    dark = image.to_rgba(matrix)[..., :3] @ LUMINANCE < 0.5
    write_numbers(axes, matrix, lambda value: format(value, digits), dark)
