r"""Damped pendulums: curves of the angle over time; the factors are length, damping and mass.

    θ'' = -(b / m) θ' - (g / L) sin θ,     g = 9.8,  θ(0) = 0,  θ'(0) = 3,

sampled at 100 times, 0.1 apart.

References:
    The multi-stage experiment of MS-VAE: length first, then damping, then the unobserved mass.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from unweave.data.dataset import Dataset
from unweave.data.grid import Array, Factor, Grid
from unweave.data.stores import Curves
from unweave.errors import DataError

__all__ = ["GRID", "CurveData", "load", "simulate"]

GRAVITY = 9.8
START_SPEED = 3.0
STEP = 0.1
TIMES = 100
SUBSTEPS = 20

GRID = Grid(
    (
        Factor("length", np.round(np.arange(1.0, 3.05, 0.1), 1)),
        Factor("damping", np.round(np.arange(0.1, 2.05, 0.1), 1)),
        Factor("mass", (0.1, 0.5, 1.0, 1.5, 2.0)),
    )
)


class CurveData(Dataset):
    """Data set of real-valued curves instead of images."""

    def curves(self, indices: Any) -> Array:
        """Return the curves, float32 `[..., T]`, at indices `[...]`."""
        return self.store.gather(self._indices(indices))

    def images(self, indices: Any, seed: int = 0) -> Array:  # noqa: ARG002 - the base's signature
        raise DataError(
            f"{self.name} has curves instead of images; use data.curves(indices)",
            subject="images",
            value=self.name,
        )

    def inputs(
        self,
        indices: Any,
        seed: int | Tensor = 0,  # noqa: ARG002 - the base's signature
        step: int | Tensor = 0,  # noqa: ARG002 - the same
        items: Tensor | None = None,  # noqa: ARG002 - the same
    ) -> Tensor:
        """Return the curves `[..., T, 1, 1]` as network inputs."""
        return torch.as_tensor(self.curves(indices))[..., None, None]


def load() -> CurveData:
    """Load all 2,100 pendulums: length 1.0 … 3.0, damping 0.1 … 2.0 and five masses."""
    factors = GRID.factors(np.arange(len(GRID)))
    length, damping, mass = (
        np.asarray(axis.values)[factors[:, k]] for k, axis in enumerate(GRID.axes)
    )
    return CurveData("pendulum", Curves(simulate(length, damping, mass)), GRID)


def simulate(length: Any, damping: Any, mass: Any = 1.0) -> np.ndarray:
    """Compute the angles of pendulums by the classic Runge-Kutta method with step size 0.005.

    Args:
        length: Length of the pendulum, a number or array that broadcasts to `[...]`.
        damping: Damping coefficient, likewise; 0 means undamped.
        mass: Mass, likewise (default 1).

    Returns:
        float32 `[..., 100]`
    """
    length, damping, mass = np.broadcast_arrays(*map(np.float64, (length, damping, mass)))
    if not (np.all(length > 0) and np.all(mass > 0)):
        raise DataError(
            f"length and mass must be positive, got {length.min():g} and {mass.min():g}",
            subject="length",
        )

    def slope(state: np.ndarray) -> np.ndarray:
        angle, speed = state
        return np.stack([speed, -damping / mass * speed - GRAVITY / length * np.sin(angle)])

    state = np.stack([np.zeros(length.shape), np.full(length.shape, START_SPEED)])
    angles = [state[0]]
    h = STEP / SUBSTEPS
    for _ in range(TIMES - 1):
        for _ in range(SUBSTEPS):
            k1 = slope(state)
            k2 = slope(state + h / 2 * k1)
            k3 = slope(state + h / 2 * k2)
            k4 = slope(state + h * k3)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        angles.append(state[0])
    return np.stack(angles, axis=-1).astype(np.float32)
