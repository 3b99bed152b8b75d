r"""What a discriminator measures: how far two bounds of a generator's information are apart.

A generator draws images x for causes c, p_θ(x, c) = p(c) p_θ(x|c). A perfect discriminator of
pairs says D(x, c) = log p(x, c) / p_θ(x, c), and the information of its images about their causes,
I_g = I_{p_θ}(x; c), lies between two bounds:

    I_UB = I_g + KL(p_θ(x) ‖ p(x))                          = E_{p_θ} log p_θ(x|c) / p(x)
    I_LB = I_g - E_{p_θ(x)} KL(p_θ(c|x) ‖ p(c|x))           = E_{p_θ} log p(c|x) / p_θ(c)

    E_{p_θ}[-D] = I_UB - I_LB

So a generator that cannot be told from the data has both bounds at its information, and no other
has.
"""

from typing import Any, NamedTuple

import numpy as np

from unweave.papers.theory import TheoryError

__all__ = ["Bounds", "information_bounds"]


class Bounds(NamedTuple):
    """In nats.

    Args:
        information: I_g.
        upper: I_UB.
        lower: I_LB.
        told_apart: E_{p_θ}[-D], which is the upper bound less the lower one.
    """

    information: float
    upper: float
    lower: float
    told_apart: float


def information_bounds(data: Any, generated: Any) -> Bounds:
    """The bounds for two tables of probabilities, each number by its own definition.

    Args:
        data: p(x, c), `[images, causes]`, above 0 wherever `generated` is.
        generated: p_θ(x, c), of the same shape.

    Example:
        >>> bounds = information_bounds([[0.4, 0.1], [0.1, 0.4]], [[0.5, 0], [0, 0.5]])
        >>> [round(number, 4) for number in bounds]
        [0.6931, 0.6931, 0.47, 0.2231]
    """
    p, g = _table(data, "data"), _table(generated, "generated")
    if p.shape != g.shape:
        raise TheoryError(
            f"both tables need the same shape, but got {list(p.shape)} and {list(g.shape)}"
        )
    if (p[g > 0] == 0).any():
        raise TheoryError("what is generated must be possible in the data; raise its zeros there")
    p_x, g_x = p.sum(1, keepdims=True), g.sum(1, keepdims=True)
    g_c = g.sum(0, keepdims=True)
    information = _mean_log(g, g, g_x * g_c)
    return Bounds(
        information,
        information + _mean_log(g_x, g_x, p_x),
        information - _mean_log(g, g * p_x, p * g_x),
        _mean_log(g, g, p),
    )


def _mean_log(weights: np.ndarray, above: np.ndarray, below: np.ndarray) -> float:
    """Σ w log(a / b) over all w above 0."""
    known = weights > 0
    above, below = np.broadcast_to(above, known.shape), np.broadcast_to(below, known.shape)
    return float((weights[known] * (np.log(above[known]) - np.log(below[known]))).sum())


def _table(values: Any, name: str) -> np.ndarray:
    table = np.asarray(values, np.float64)
    if table.ndim != 2 or (table < 0).any() or not np.isclose(table.sum(), 1, atol=1e-9):
        raise TheoryError(
            f"{name} must be a table [images, causes] of probabilities that sum to 1"
        )
    return table
