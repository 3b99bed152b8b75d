"""Data sets whose images are changed a little: by m(w), or by noise of the same size.

    dsprites-modified, rooms3d-modified, shapes3d-modified   x̃ = r(x + m(w)), path=FILE of m
    dsprites-noise, rooms3d-noise, shapes3d-noise            x̃ = r(x + n), n ~ U[-ε, ε] i.i.d.

Order, factors and labels stay as they are. Images are made on demand, in whole numbers, so that
every device gives the same bytes, and no pixel moves by more than ε. Noise is fixed by its seed
and the number of the image: nothing is drawn anew while training.

References:
    Zietlow, Rolínek, Martius, Demystifying Inductive Biases for (Beta-)VAE Based Architectures,
    ICML 2021, arXiv:2102.06822.
"""

import hashlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from unweave.data.dataset import Dataset
from unweave.data.grid import Array, Grid
from unweave.data.origin import check_origin, origin_of, rebuild
from unweave.data.stores import Curves, Floats, Store
from unweave.errors import DataError
from unweave.random import Stream
from unweave.text import shown

if TYPE_CHECKING:
    from unweave.papers.inductive_biases.manipulation.manipulation import Manipulation

__all__ = ["BASES", "Altered", "Mixture", "Noise", "load_modified", "load_noise", "with_noise"]

BASES = {"dsprites": 0.1, "rooms3d": 0.175, "shapes3d": 0.175}
"""Data sets that have such variants by name, and the ε of the paper."""
PARTS = 16
"""Places in a table of changes are kept in 2⁻¹⁶ of a row."""
FEWEST, MOST = 256, 8_192
"""Rows of such a table."""


class Rule(Protocol):
    """What is added to images."""

    def __call__(self, indices: Array, shape: tuple[int, int, int]) -> Array:
        """The changes of images `[n]` in bytes, whole numbers `[n, H, W, C]`."""
        ...

    @property
    def nbytes(self) -> int: ...

    def to(self, device: str | torch.device) -> "Rule": ...


@dataclass(frozen=True, eq=False)
class Mixture:
    """Changes that depend on the factors through one number, by a table.

    Args:
        grid: The factors.
        steps: int64 `[K, classes]`: what each class of each factor adds to the place in the table,
            in 2⁻¹⁶ rows.
        table: int8 `[T, H, W, C]`.
    """

    grid: Grid
    steps: Array
    table: Array

    def __call__(self, indices: Array, shape: tuple[int, int, int]) -> Array:  # noqa: ARG002
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
    """Whole numbers, uniform from -size to size, independent in every pixel of every image.

    Args:
        size: In bytes.
        seed: An int64 scalar.
    """

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
    """Images of another store, with something added and reflected at 0 and 255.

    Args:
        images: The other store, of bytes.
        rule: What is added.
        chosen: The images that a slice kept, by their number there; None is all of them.
    """

    images: Store
    rule: Rule
    chosen: Array | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.images.shape

    @property
    def nbytes(self) -> int:
        kept = 0 if self.chosen is None else int(self.chosen.nbytes)
        return self.images.nbytes + self.rule.nbytes + kept

    def __len__(self) -> int:
        return len(self.images) if self.chosen is None else len(self.chosen)

    def gather(self, indices: Array) -> Array:
        flat = indices.reshape(-1)
        flat = flat if self.chosen is None else self.chosen[flat]
        added = _wide(self.images.gather(flat)) + self.rule(flat, self.shape)
        altered = 255 - abs(255 - abs(added))
        return _narrow(altered).reshape(*indices.shape, *self.shape)

    def take(self, indices: np.ndarray) -> "Altered":
        return replace(self, chosen=indices if self.chosen is None else self.chosen[indices])

    def to(self, device: str | torch.device) -> "Altered":
        chosen = None if self.chosen is None else torch.as_tensor(self.chosen, device=device)
        return Altered(self.images.to(device), self.rule.to(device), chosen)


def load_modified(base: str, path: str | Path | None = None) -> Dataset:
    """A data set changed by m, as `unweave manipulate` saved it.

    Args:
        base: The name of what is changed.
        path: The file of m.
    """
    from unweave.papers.inductive_biases.manipulation.manipulation import find

    if path is None:
        raise DataError(
            f"{base}_modified needs the file of m as path=FILE; make one with `unweave manipulate`"
        )
    m = find(path)
    origin: Any = m.settings.get("data")
    check_origin(origin)
    (kind, made_of, *_), *rest = origin
    if (kind, made_of) != ("load", base):
        raise DataError(f"{path} changes {shown(made_of)}, not {base}; load it by the right name")
    data = rebuild([["load", base, {}], *rest])
    return replace(m.modified(data), name=f"{base}_modified")


def load_noise(base: str, epsilon: float | None = None, seed: int = 0) -> Dataset:
    """A data set with noise in every pixel, the control for one that is changed by m.

    Args:
        base: The name of what is changed.
        epsilon: How far a pixel moves, at most; by default as in the paper.
        seed: Of the noise.
    """
    from unweave.data import load

    size = BASES[base] if epsilon is None else epsilon
    return replace(with_noise(load(base), size, seed), name=f"{base}_noise")


def with_noise(data: Dataset, epsilon: float, seed: int = 0) -> Dataset:
    """Any data set of bytes with noise U[-ε, ε] in every pixel, the same for every draw.

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
        raise DataError(f"the seed of the noise must be between 0 and 2**63, but got {seed}")
    rule = Noise(in_bytes(epsilon), torch.tensor(seed))
    step = ["noise", epsilon, seed]
    return replace(
        data,
        name=f"{data.name}_noise",
        store=Altered(data.store, rule),
        origin=own_origin(data, step),
    )


def mixture(m: "Manipulation", grid: Grid) -> Mixture:
    """The changes of m for all images of a grid, as whole numbers.

    The table has so many rows that neighbours differ by at most a byte. A byte is then at most one
    off what m itself says, rounded or not.
    """
    steps, lowest = m.steps(grid)
    span = float(steps.max(1).sum()) or 1.0
    limit = in_bytes(m.epsilon)
    rows = FEWEST
    while True:
        changes = 255 * m.along(lowest + span * np.linspace(0, 1, rows))
        if not np.isfinite(changes).all():
            raise DataError("this m changes images by numbers that are not finite; train it again")
        if rows >= MOST or np.abs(np.diff(changes, axis=0)).max() <= 1:
            break
        rows *= 2
    table = np.rint(changes).clip(-limit, limit).astype(np.int8)
    whole = np.rint(steps / span * (rows - 1) * (1 << PARTS)).astype(np.int64)
    return Mixture(grid, whole, table)


def in_bytes(epsilon: float) -> int:
    """ε as a whole number of bytes, rounded down."""
    return math.floor(255 * epsilon + 1e-9)


def check_epsilon(epsilon: float) -> None:
    """Refuse sizes that change nothing, or more than a reflection can repair."""
    if not (1 / 255 <= epsilon < 0.5):
        raise DataError(f"ε is at least 1/255 and below 0.5, but got {epsilon}; choose such a one")


def check_alterable(data: Dataset) -> None:
    """Refuse data sets whose images are not bytes, or another each time that they are drawn."""
    if data.random or isinstance(data.store, Floats | Curves):
        raise DataError(
            f"{data.name} has no fixed images in bytes, which can be changed; take one that has"
        )


def own_origin(data: Dataset, step: list[Any]) -> tuple[Any, ...]:
    """The origin of a data set made of another in Python, which no name loads."""
    text = json.dumps([*origin_of(data), step])
    return (["own", f"{data.name}_{step[0]}", hashlib.sha256(text.encode()).hexdigest()[:16]],)


def _wide(images: Array) -> Array:
    return images.short() if isinstance(images, torch.Tensor) else images.astype(np.int16)


def _narrow(images: Array) -> Array:
    return images.byte() if isinstance(images, torch.Tensor) else images.astype(np.uint8)
