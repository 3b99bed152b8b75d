"""Learning trajectories of small linear models, and errors of theory experiments."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from unweave.errors import UnweaveError

__all__ = ["PRUNED", "Ascent", "TheoryError", "check_beta"]

PRUNED = 0.05
"""A component counts as pruned if its weight norm is below this fraction of the largest."""


class TheoryError(UnweaveError):
    """Raised when a theory experiment cannot be run as requested."""


def check_beta(beta: float) -> None:
    """Raise an error unless β is positive and finite."""
    if not (np.isfinite(beta) and beta > 0):
        raise TheoryError(
            f"β must be positive, got {beta:g}; 1 is plain variational inference",
            subject="beta",
            value=beta,
        )


@dataclass(frozen=True, eq=False)
class Ascent:
    """A learning trajectory with s recorded steps, including the initial state.

    Args:
        weights: Weights of K components in d observed dimensions, `[s, d, K]`.
        free_energy: Free energy in nats per data point, `[s]`; never decreases, up to rounding.
    """

    weights: np.ndarray
    free_energy: np.ndarray

    @property
    def norms(self) -> np.ndarray:
        """Norm of the weights of each component, `[s, K]`."""
        return np.linalg.norm(self.weights, axis=1)

    @property
    def shares(self) -> np.ndarray:
        """Norms relative to the largest, `[s, K]`; 0 if all are 0."""
        longest = self.norms.max(1, keepdims=True)
        return np.divide(self.norms, longest, out=np.zeros_like(self.norms), where=longest > 0)

    @property
    def kept(self) -> np.ndarray:
        """Number of components that are not pruned, `[s]`."""
        return (self.shares >= PRUNED).sum(1)

    @property
    def orthogonality(self) -> np.ndarray:
        """Deviation of the components from orthogonality, 0 (orthogonal) to 1 (parallel), `[s]`.

        O = Σ_{i<j} ‖w_i‖ ‖w_j‖ cos² φ_ij / Σ_{i<j} ‖w_i‖ ‖w_j‖
        """
        first, second = np.triu_indices(self.norms.shape[1], 1)
        sizes = self.norms[:, first] * self.norms[:, second]
        products = np.einsum("sdk,sdk->sk", self.weights[..., first], self.weights[..., second])
        squares = np.divide(products**2, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        return squares.sum(1) / np.maximum(sizes.sum(1), np.finfo(float).tiny)

    @property
    def angle(self) -> np.ndarray:
        """Angle between the two longest components, 0 to 90 degrees, `[s]`."""
        longest = np.argsort(-self.norms, axis=1)[:, None, :2]
        one, other = np.moveaxis(np.take_along_axis(self.weights, longest, axis=2), 2, 0)
        sizes = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosine = np.abs((one * other).sum(1)) / np.maximum(sizes, np.finfo(float).tiny)
        return np.degrees(np.arccos(np.minimum(cosine, 1)))

    def pruned_after(self, kept: int) -> int | None:
        """Return the first step with at most `kept` unpruned components, or None."""
        found = np.flatnonzero(self.kept <= kept)
        return int(found[0]) if len(found) else None

    @property
    def table(self) -> pd.DataFrame:
        """One row per step: `free_energy`, `norm_1` …, `orthogonality`, `angle`, `kept`."""
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
