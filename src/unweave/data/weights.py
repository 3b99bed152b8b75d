"""Weighted sampling of images: correlated factors and cumulative weights."""

import numpy as np
import torch
from torch import Tensor

from unweave.errors import DataError

__all__ = ["correlated_joint", "cumulate"]


def correlated_joint(rows: int, columns: int, correlation: float) -> np.ndarray:
    """Return the maximum-entropy joint distribution of two uniform factors with a correlation.

    The distribution `[rows, columns]` is

        p(i, j) = a_i b_j exp(λ u_i v_j)

    with the classes u, v scaled to [-1, 1], a, b such that the marginals are uniform (found by
    Sinkhorn scaling) and λ such that the Pearson correlation of the classes is `correlation`;
    ±1 is possible only for factors of equal size.
    """
    from scipy.optimize import brentq  # the import takes half a second

    if rows < 2 or columns < 2:
        raise DataError(
            f"correlated factors must have at least 2 classes, got {rows} and {columns}",
            subject="factors",
            value=(rows, columns),
        )
    u, v = np.linspace(-1, 1, rows), np.linspace(-1, 1, columns)

    def joint(strength: float) -> np.ndarray:
        # Completed squares instead of products keep the exponents at most 0, so nothing overflows.
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
            f"the correlation of factors with {rows} and {columns} classes must be within "
            f"±{strongest:.3f}, got {correlation}",
            subject="correlation",
            value=correlation,
        )
    return joint(brentq(excess, -limit, limit, xtol=1e-9))


def cumulate(weights: np.ndarray) -> Tensor:
    """Return the normalised cumulative sum `[N]` of sampling weights, ending at exactly 1."""
    total = np.cumsum(weights, dtype=np.float64)
    if not total[-1] > 0:
        raise DataError(
            "no images are left to sample, since none satisfies all conditions; relax them",
            subject="weights",
        )
    cumulative = total / total[-1]
    cumulative[weights.nonzero()[0][-1] :] = 1.0
    return torch.from_numpy(cumulative)
