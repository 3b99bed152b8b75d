"""Data sets with slightly changed images: by m(w), or by noise of the same size.

    dsprites-modified, rooms3d-modified, shapes3d-modified   x̃ = r(x + m(w)), path=FILE of m
    dsprites-noise, rooms3d-noise, shapes3d-noise            x̃ = r(x + n), n ~ U[-ε, ε] i.i.d.

Order, factors and labels are unchanged. Images are computed on demand in integer arithmetic, so
every device gives the same bytes, and no pixel changes by more than ε. Noise is determined by its
seed and the index of the image; it is not resampled during training.

References:
    Zietlow, Rolínek, Martius, Demystifying Inductive Biases for (Beta-)VAE Based Architectures,
    ICML 2021, arXiv:2102.06822.
"""

import hashlib
import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from unweave.data.dataset import Dataset
from unweave.data.grid import Array, Grid
from unweave.data.origin import origin_of
from unweave.data.stores import Curves, Floats, Store
from unweave.errors import DataError
from unweave.io.arrays import cast
from unweave.random import Stream

__all__ = [
    "BASES",
    "PARTS",
    "Altered",
    "Mixture",
    "Noise",
    "check_alterable",
    "check_epsilon",
    "grid_of",
    "in_bytes",
    "load_noise",
    "own_origin",
    "with_noise",
]

BASES = {"dsprites": 0.1, "rooms3d": 0.175, "shapes3d": 0.175}
"""Data sets with variants that can be loaded by name, and the ε of the paper."""
PARTS = 16
"""Positions in a table of changes are stored in units of 2⁻¹⁶ rows."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Changes that depend on one linear combination of the factors, through a lookup table.

    Args:
        grid: Grid of factors.
        steps: Contribution of each class of each factor to the position in the table, in 2⁻¹⁶
            rows, int64 `[K, classes]`.
        table: Changes, int8 `[T, H, W, C]`.
    """

    grid: Grid
    steps: Array
    table: Array

    def __call__(self, indices: Array, shape: tuple[int, int, int]) -> Array:  # noqa: ARG002
        """Changes of images `[n]` in bytes, integers `[n, H, W, C]`."""
        classes = self.grid.factors(indices)
        place = sum(self.steps[k][classes[:, k]] for k in range(len(self.grid.axes)))
        return self.table[(place + (1 << PARTS - 1)) >> PARTS]

    @property
    def nbytes(self) -> int:
        return int(self.steps.nbytes + self.table.nbytes)

    def to(self, device: str | torch.device) -> "Mixture":
        steps, table = (torch.as_tensor(part, device=device) for part in (self.steps, self.table))
        return Mixture(self.grid, steps, table)


@dataclass(frozen=True, eq=False)
class Noise:
    """Integers, uniform from -size to size, independent in every pixel of every image."""

    size: int
    seed: torch.Tensor

    def __call__(self, indices: Array, shape: tuple[int, int, int]) -> Array:
        stream = Stream(self.seed, "noise of images")
        items = torch.as_tensor(indices)
        noise = stream.integers(2 * self.size + 1, items, math.prod(shape)) - self.size
        noise = noise.to(torch.int16).unflatten(-1, shape)
        return noise if isinstance(indices, torch.Tensor) else noise.numpy()

    @property
    def nbytes(self) -> int:
        return self.seed.nbytes

    def to(self, device: str | torch.device) -> "Noise":
        return Noise(self.size, self.seed.to(device))


@dataclass(frozen=True, eq=False)
class Altered:
    """Images of another store with a change added, reflected at 0 and 255.

    Args:
        images: Original store, of bytes.
        rule: Change to add.
        chosen: Indices of the images in a slice; None for all images.
    """

    images: Store
    rule: Mixture | Noise
    chosen: Array | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.images.shape

    @property
    def nbytes(self) -> int:
        indices = 0 if self.chosen is None else int(self.chosen.nbytes)
        return self.images.nbytes + self.rule.nbytes + indices

    def __len__(self) -> int:
        return len(self.images) if self.chosen is None else len(self.chosen)

    def gather(self, indices: Array) -> Array:
        flat = indices.reshape(-1)
        flat = flat if self.chosen is None else self.chosen[flat]
        added = cast(self.images.gather(flat), "int16") + self.rule(flat, self.shape)
        altered = 255 - abs(255 - abs(added))
        return cast(altered, "uint8").reshape(*indices.shape, *self.shape)

    def take(self, indices: np.ndarray) -> "Altered":
        return replace(self, chosen=indices if self.chosen is None else self.chosen[indices])

    def to(self, device: str | torch.device) -> "Altered":
        chosen = None if self.chosen is None else torch.as_tensor(self.chosen, device=device)
        return Altered(self.images.to(device), self.rule.to(device), chosen)


def load_noise(base: str, epsilon: float | None = None, seed: int = 0) -> Dataset:
    """Load a data set with noise in every pixel, the control for one changed by m."""
    from unweave.data import load

    size = BASES[base] if epsilon is None else epsilon
    return replace(with_noise(load(base), size, seed), name=f"{base}_noise")


def with_noise(data: Dataset, epsilon: float, seed: int = 0) -> Dataset:
    """Add noise U[-ε, ε] to every pixel of a data set of bytes, the same in every epoch.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load(np.full((2, 32, 32), 128, np.uint8))
        >>> noisy = with_noise(data, 0.1, seed=3)
        >>> int(noisy.images([0, 1]).min()), int(noisy.images([0, 1]).max())
        (103, 153)
    """
    check_alterable(data)
    check_epsilon(epsilon)
    if not 0 <= seed < 2**63:
        raise DataError(
            f"seed must be at least 0 and below 2**63, got {seed}", subject="seed", value=seed
        )
    rule = Noise(in_bytes(epsilon), torch.tensor(seed))
    store, origin = Altered(data.store, rule), own_origin(data, ["noise", epsilon, seed])
    return replace(data, name=f"{data.name}_noise", store=store, origin=origin)


def in_bytes(epsilon: float) -> int:
    """ε as an integer number of bytes, rounded down."""
    return math.floor(255 * epsilon + 1e-9)


def check_epsilon(epsilon: float) -> None:
    """Reject an ε that changes nothing, or that exceeds what a reflection can handle."""
    if not (1 / 255 <= epsilon < 0.5):
        raise DataError(
            f"epsilon must be at least 1/255 and below 0.5, got {epsilon}",
            subject="epsilon",
            value=epsilon,
        )


def check_alterable(data: Dataset) -> None:
    """Reject data sets whose images are not bytes, or change each time they are sampled."""
    if data.random or isinstance(data.store, Floats | Curves):
        raise DataError(
            f"data must have fixed images of bytes, got {data.name}; use another data set",
            subject="data",
            value=data.name,
        )


def grid_of(data: Dataset) -> Grid:
    """Return the grid of factors of a data set; reject data sets without one."""
    if data.grid is None:
        raise DataError(
            f"data must have a grid of factors, got {data.name}", subject="data", value=data.name
        )
    return data.grid


def own_origin(data: Dataset, step: list[Any]) -> tuple[Any, ...]:
    """Origin of a data set derived from another in Python, which cannot be loaded by name."""
    text = json.dumps([*origin_of(data), step])
    return (["own", f"{data.name}_{step[0]}", hashlib.sha256(text.encode()).hexdigest()[:16]],)
