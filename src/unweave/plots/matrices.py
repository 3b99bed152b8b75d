"""Heat maps of codes × factors: the matrices behind MIG, DCI and the FactorVAE score."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.errors import DataError, UnknownNameError
from unweave.plots.colours import ONE_HUE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unweave.plots.plot import Plot

__all__ = ["MATRICES", "heat_map", "matrices"]

CELL_WIDTH, CELL_HEIGHT = 0.42, 0.21
LABELS, GAP, HEADINGS = 0.4, 0.12, 0.85
PAPER_WIDTH = 7.2


@dataclass(frozen=True)
class Kind:
    """How one kind of matrix is drawn.

    Args:
        title: Above it.
        digits: How its values are written.
    """

    title: str
    digits: str


MATRICES: Mapping[str, Kind] = {
    "importance": Kind("DCI importance", ".2f"),
    "information": Kind("Mutual information (nats)", ".2f"),
    "votes": Kind("FactorVAE votes", ".0f"),
}


def matrices(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[str] = tuple(MATRICES),
) -> "Plot":
    """Compute and draw the matrices of codes × factors, side by side where paper is wide enough.

    Args:
        codes: `[n, d]`.
        factors: `[n, K]`; those with one value are left out.
        seed: Of what the metrics draw.
        names: Of the K factors.
        kinds: Of `MATRICES`.

    Returns:
        A matplotlib figure, to be saved with `.save("matrices.svg")`.
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
        raise DataError(
            f"there must be a name for every factor, but got {len(given)} for {max(columns) + 1}"
        )
    labels = [given[k] for k in columns]
    return _draw({kind: functions[_known(kind)](codes, factors, seed) for kind in kinds}, labels)


def heat_map(matrix: Any, kind: str, names: Sequence[str] | None = None) -> "Plot":
    """Draw one matrix.

    Args:
        matrix: `[d, K]`, as `uw.metrics.importance_matrix`, `information_matrix` and
            `vote_matrix` give them.
        kind: Of `MATRICES`.
        names: Of the K factors.

    Returns:
        A matplotlib figure, to be saved with `.save("matrix.svg")`.

    Example:
        >>> figure = heat_map([[0.9, 0.1], [0.1, 0.9]], "importance", ["shape", "scale"])
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['0.90', '0.10', '0.10', '0.90']
    """
    matrix = np.asarray(matrix, dtype=float)
    if matrix.ndim != 2 or matrix.size == 0:
        raise DataError(f"a matrix is [codes, factors], but got {list(matrix.shape)}")
    labels = list(names) if names is not None else [f"v{k}" for k in range(matrix.shape[1])]
    if len(labels) != matrix.shape[1]:
        raise DataError(
            f"there must be a name for every factor, but got {len(labels)} for {matrix.shape[1]}"
        )
    return _draw({_known(kind): matrix}, labels)


def _known(kind: str) -> str:
    if kind not in MATRICES:
        raise UnknownNameError("matrix", kind, MATRICES)
    return kind


def _draw(drawn: Mapping[str, np.ndarray], names: Sequence[str]) -> "Plot":
    from unweave.plots.plot import panels

    codes, factors = next(iter(drawn.values())).shape
    panel = factors * CELL_WIDTH + GAP
    beside = LABELS + len(drawn) * panel <= PAPER_WIDTH
    rows, columns = (1, len(drawn)) if beside else (len(drawn), 1)
    size = LABELS + columns * panel, rows * (codes * CELL_HEIGHT + HEADINGS)
    figure, axes = panels(rows, columns, size, sharey=True)
    for place, (kind, matrix) in zip(axes.flat, drawn.items(), strict=True):
        _panel(place, matrix, MATRICES[kind], names)
    return figure


def _panel(axes: "Axes", matrix: np.ndarray, kind: Kind, names: Sequence[str]) -> None:
    from unweave.plots.plot import SMALL, TEXT

    top = max(float(matrix.max()), 1e-12)
    image = axes.imshow(matrix, cmap=ONE_HUE, vmin=0, vmax=top, aspect="auto")
    axes.set_title(kind.title, fontsize=TEXT)
    axes.set_xticks(range(matrix.shape[1]), names, fontsize=SMALL, rotation=35, ha="right")
    axes.set_yticks(range(len(matrix)), [f"z{j}" for j in range(len(matrix))], fontsize=SMALL)
    axes.tick_params(length=2, pad=1.5)
    for (j, k), value in np.ndenumerate(matrix):
        red, green, blue, _ = image.to_rgba(value)
        dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5
        ink = "white" if dark else "black"
        text = format(value, kind.digits)
        axes.text(k, j, text, ha="center", va="center", fontsize=SMALL, color=ink)
