r"""The output of a discriminator as the gap between two bounds of a generator's information.

A generator samples images x for causes c, p_θ(x, c) = p(c) p_θ(x|c). A perfect discriminator of
pairs outputs D(x, c) = log p(x, c) / p_θ(x, c). The information of images about their causes,
I_g = I_{p_θ}(x; c), lies between two bounds:

    I_UB = I_g + KL(p_θ(x) ‖ p(x))                          = E_{p_θ} log p_θ(x|c) / p(x)
    I_LB = I_g - E_{p_θ(x)} KL(p_θ(c|x) ‖ p(c|x))           = E_{p_θ} log p(c|x) / p_θ(c)

    E_{p_θ}[-D] = I_UB - I_LB

Both bounds equal the information if and only if the generator is indistinguishable from the data.
"""

from typing import Any, NamedTuple

import numpy as np

from unweave.papers.theory import TheoryError

__all__ = ["Bounds", "information_bounds"]


class Bounds(NamedTuple):
    """Information and its bounds, in nats.

    Args:
        information: I_g.
        upper: Upper bound I_UB.
        lower: Lower bound I_LB.
        gap: E_{p_θ}[-D], which equals the upper minus the lower bound.
    """

    information: float
    upper: float
    lower: float
    gap: float


def information_bounds(data: Any, generated: Any) -> Bounds:
    """Compute the bounds for two tables of probabilities, each from its own definition.

    Example:
        >>> bounds = information_bounds([[0.4, 0.1], [0.1, 0.4]], [[0.5, 0], [0, 0.5]])
        >>> [round(number, 4) for number in bounds]
        [0.6931, 0.6931, 0.47, 0.2231]
    """
    p, g = _table(data, "data"), _table(generated, "generated")
    if p.shape != g.shape:
        raise TheoryError(
            f"tables must have the same shape, got {list(p.shape)} and {list(g.shape)}",
            subject="generated",
            value=g.shape,
        )
    if (p[g > 0] == 0).any():
        raise TheoryError(
            "data must be positive wherever generated is, got 0", subject="data", value=0
        )
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
    """Σ w log(a / b) over all positive w."""
    known = weights > 0
    above, below = np.broadcast_to(above, known.shape), np.broadcast_to(below, known.shape)
    return float((weights[known] * (np.log(above[known]) - np.log(below[known]))).sum())


def _table(values: Any, name: str) -> np.ndarray:
    table = np.asarray(values, np.float64)
    if table.ndim != 2 or (table < 0).any() or not np.isclose(table.sum(), 1, atol=1e-9):
        raise TheoryError(
            f"{name} must be a table [images, causes] of probabilities that sum to 1, got shape "
            f"{list(table.shape)} and sum {table.sum():g}",
            subject=name,
            value=table.shape,
        )
    return table
