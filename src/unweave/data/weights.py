"""Drawing some images more often than others: correlated factors, and tables to draw from."""

import numpy as np
import torch
from torch import Tensor

from unweave.errors import DataError

__all__ = ["correlated_joint", "cumulate"]


def correlated_joint(rows: int, columns: int, correlation: float) -> np.ndarray:
    """The joint law of two uniform factors with a given correlation and no other structure.

    The law of largest entropy under these constraints is

        p(i, j) = a_i b_j exp(λ u_i v_j)

    with u, v the classes spread over [-1, 1], a, b such that the marginals are uniform (found by
    Sinkhorn's scaling) and λ such that Corr(i, j) is what was asked for.

    Args:
        rows, columns: The sizes of the two factors, at least 2.
        correlation: Pearson's, between the classes; the extremes ±1 exist only for factors of
            equal size.

    Returns:
        `[rows, columns]`, summing to 1.
    """
    from scipy.optimize import brentq  # takes half a second, which most commands can spare

    if rows < 2 or columns < 2:
        raise DataError("a factor with one class cannot be correlated with another")
    u, v = np.linspace(-1, 1, rows), np.linspace(-1, 1, columns)

    def joint(strength: float) -> np.ndarray:
        # Shifted by the largest exponent of each row, so that large strengths stay finite.
        table = np.exp(
            -strength / 2 * (u[:, None] - v) ** 2
            if strength > 0
            else strength / 2 * (u[:, None] + v) ** 2
        )
        for _ in range(2_000):
            table /= table.sum(1, keepdims=True) * rows
            table /= table.sum(0) * columns
            if np.abs(table.sum(1) * rows - 1).max() < 1e-12:
                break
        return table

    def excess(strength: float) -> float:
        return float(
            u @ joint(strength) @ v / np.sqrt((u**2).mean() * (v**2).mean()) - correlation
        )

    limit = 2e3
    if abs(correlation) > 1 or excess(-limit) > 0 or excess(limit) < 0:
        strongest = excess(limit) + correlation
        raise DataError(
            f"factors with {rows} and {columns} classes can be correlated by at most "
            f"±{strongest:.3f}, but got {correlation=}"
        )
    return joint(brentq(excess, -limit, limit, xtol=1e-9))


def cumulate(weights: np.ndarray) -> Tensor:
    """The distribution function `[N]` of a draw with these weights, ending at exactly 1."""
    total = np.cumsum(weights, dtype=np.float64)
    if not total[-1] > 0:
        raise DataError("nothing is left to draw: no image satisfies all conditions")
    cumulative = total / total[-1]
    cumulative[weights.nonzero()[0][-1] :] = 1.0
    return torch.from_numpy(cumulative)
