"""What both small models share: the way that learning takes, measured step by step."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from unweave.errors import UnweaveError

__all__ = ["PRUNED", "Ascent", "TheoryError", "check_beta"]

PRUNED = 0.05
"""A component is pruned whose weights are shorter than this share of the longest."""


class TheoryError(UnweaveError):
    """A small exact experiment that cannot be run as it was asked for."""


def check_beta(beta: float) -> None:
    """Refuse a β that is not above 0."""
    if not (np.isfinite(beta) and beta > 0):
        raise TheoryError(f"β must be above 0, but got {beta:g}; 1 is plain variational inference")


@dataclass(frozen=True, eq=False)
class Ascent:
    """The way that learning took: a row for each of s steps, the start first.

    Args:
        weights: Of d observed dimensions and K components, `[s, d, K]`.
        free_energy: In nats per data point, `[s]`; it never falls, but for rounding.
    """

    weights: np.ndarray
    free_energy: np.ndarray

    @property
    def norms(self) -> np.ndarray:
        """How long the weights of each component are, `[s, K]`."""
        return np.linalg.norm(self.weights, axis=1)

    @property
    def shares(self) -> np.ndarray:
        """The same as shares of the longest, `[s, K]`; 0 where all are pruned."""
        longest = self.norms.max(1, keepdims=True)
        return np.divide(self.norms, longest, out=np.zeros_like(self.norms), where=longest > 0)

    @property
    def kept(self) -> np.ndarray:
        """How many components are not pruned, `[s]`."""
        return (self.shares >= PRUNED).sum(1)

    @property
    def orthogonality(self) -> np.ndarray:
        """How far components are from orthogonal, 0 (orthogonal) to 1 (parallel), `[s]`.

        O = Σ_{i<j} ‖w_i‖ ‖w_j‖ cos² φ_ij / Σ_{i<j} ‖w_i‖ ‖w_j‖
        """
        first, second = np.triu_indices(self.norms.shape[1], 1)
        sizes = self.norms[:, first] * self.norms[:, second]
        products = np.einsum("sdk,sdk->sk", self.weights[..., first], self.weights[..., second])
        squares = np.divide(products**2, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        return squares.sum(1) / np.maximum(sizes.sum(1), np.finfo(float).tiny)

    @property
    def angle(self) -> np.ndarray:
        """Between the two longest components, 0 to 90 degrees, `[s]`."""
        longest = np.argsort(-self.norms, axis=1)[:, None, :2]
        one, other = np.moveaxis(np.take_along_axis(self.weights, longest, axis=2), 2, 0)
        sizes = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosine = np.abs((one * other).sum(1)) / np.maximum(sizes, np.finfo(float).tiny)
        return np.degrees(np.arccos(np.minimum(cosine, 1)))

    def pruned_after(self, kept: int) -> int | None:
        """The first step at which at most so many components are kept; None if there is none."""
        found = np.flatnonzero(self.kept <= kept)
        return int(found[0]) if len(found) else None

    @property
    def table(self) -> pd.DataFrame:
        """A row per step: `free_energy`, `norm_1` …, `orthogonality`, `angle`, `kept`."""
        norms = {f"norm_{k + 1}": column for k, column in enumerate(self.norms.T)}
        return pd.DataFrame(
            {
                "step": np.arange(len(self.norms)),
                "free_energy": self.free_energy,
                **norms,
                "orthogonality": self.orthogonality,
                "angle": self.angle,
                "kept": self.kept,
            }
        )
