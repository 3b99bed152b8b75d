"""The `Dataset` class: images and, where known, their ground-truth factors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from unweave.data.grid import Array, Grid, Labels, as_integers
from unweave.data.pairs import PairRule, WeakPairs
from unweave.data.pictures import NonSquare
from unweave.data.stores import Store
from unweave.data.streaming import Streamed
from unweave.data.weights import correlated_joint, cumulate
from unweave.errors import DataError
from unweave.io.arguments import check_seed
from unweave.random import Stream
from unweave.text import counted

__all__ = ["Appearance", "Batch", "Choice", "Dataset", "as_floats", "scaled_factors"]

Choice = Mapping[str, int | Iterable[int]]
"""Allowed class or classes of each named factor."""
MAX_NOTES = 6
"""Largest number of notes that `print` shows."""


class Batch(NamedTuple):
    """Sampled images with their indices, and their factors where known."""

    indices: Array
    images: Array
    factors: Array | None


class Appearance(Protocol):
    """Random part of an image given its factors: a colour, noise or a background."""

    @property
    def channels(self) -> int: ...

    def __call__(self, images: Tensor, stream: Stream, items: Tensor) -> Tensor:
        """Map images `[*S, n, H, W, C]` (bytes or floats) to float32 `[*S, n, H, W, channels]`."""
        ...

    def to(self, device: torch.device) -> "Appearance": ...


def as_floats(images: Tensor) -> Tensor:
    """Convert bytes 0 … 255 to floats in [0, 1]; floats are returned unchanged."""
    return images.float() / 255 if images.dtype == torch.uint8 else images


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Images with their factors, and methods to sample from them.

    Indices, factors and images are NumPy arrays; after `to(device)` they are torch tensors on that
    device. If an image is random given its factors, it is a function of its index and a seed, so
    each seed gives one fixed data set.

    Args:
        name: Name on the command line and in tables.
        store: Stored images.
        grid: Grid of all combinations of the factors, in index order, if the images form one.
        labels: Factors of each image, if they are known but do not form a grid.
        variants: Stored images per index, one of which is sampled (the instances of SmallNORB).
        appearance: Random part of every image (the colours of Color-dSprites).
        weights: Sampling weights `[N]` of the images (default: uniform).
        files: File name of each image, if the images were read from files.
        skipped: Files that could not be read, with the reason.
        notes: Sentences about how custom images were prepared: crops, resizing, bit depth,
            duplicates.
        bits: Bit depth by which integers of more than 8 bits were scaled, if there were any.
        non_square: `"pad"` if images were padded to a square instead of cropped.
        device: Device of the images; None means NumPy arrays in host memory.
        origin: Steps that created the data set, as plain data; saved with models.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites")
        >>> data.images([0]).shape, data.factors([737_279])
        ((1, 64, 64, 1), array([[ 2,  5, 39, 31, 31]]))
        >>> hearts = data.draw(64, seed=1, fixed={"shape": 2})
        >>> set(hearts.factors[:, 0].tolist())
        {2}
    """

    name: str
    store: Store
    grid: Grid | None = None
    labels: Labels | None = None
    variants: int = 1
    appearance: Appearance | None = None
    weights: np.ndarray | None = None
    files: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    device: torch.device | None = None
    origin: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    bits: int | None = None
    non_square: NonSquare = "crop"

    def __post_init__(self) -> None:
        known = len(self.grid) if self.grid else len(self.labels.classes) if self.labels else None
        if known is not None and known != len(self):
            raise DataError(
                f"{self.name} has {len(self):,} images, but factors for {known:,}; pass one row "
                "of factors per image",
                subject="factors",
                value=known,
            )

    def __len__(self) -> int:
        return len(self.store) // self.variants

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        height, width, channels = self.store.shape
        return height, width, self.appearance.channels if self.appearance else channels

    @property
    def random(self) -> bool:
        """Whether an image is random given its factors, so that seeds matter."""
        return self.variants > 1 or self.appearance is not None

    def images(self, indices: Any, seed: int = 0) -> Array:
        """Return the images `[..., H, W, C]`, bytes 0 … 255, at indices `[...]`."""
        indices = self._indices(indices)
        return self._bytes(indices, seed, 0, self._tensor(indices).flatten())

    def pixels(
        self,
        indices: Any,
        seed: int | Tensor = 0,
        step: int | Tensor = 0,
        items: Tensor | None = None,
    ) -> Tensor:
        """Return images as float32 in [0, 1], not rounded to bytes, `[*S, n, H, W, C]`.

        Args:
            indices: Indices of the images, `[*S, n]`.
            seed: Seed, or seeds `[*S]`, of the random part of the images.
            step: Training step; together with `seed` it selects the random stream.
            items: Positions `[n]` of the images in the random stream (default: their indices, so
                that an image always looks the same under one seed; training uses batch positions).
        """
        return as_floats(self.inputs(indices, seed, step, items))

    def inputs(
        self,
        indices: Any,
        seed: int | Tensor = 0,
        step: int | Tensor = 0,
        items: Tensor | None = None,
    ) -> Tensor:
        """Return network inputs: `pixels`, or the same images as bytes where this is exact."""
        stored = self._tensor(self._indices(indices))
        items = stored if items is None else items
        if self.variants > 1:
            stream = Stream(self._seed(seed), "variant", step)
            chosen = stream.integers(self.variants, items, 1)[..., 0]
            stored = stored * self.variants + chosen
        images = torch.as_tensor(self.store.gather(self._native(stored)))
        if self.appearance is None:
            return images
        return self.appearance(images, Stream(self._seed(seed), "appearance", step), items)

    def factors(self, indices: Any) -> Array:
        """Return the factor classes `[..., K]` of the images at indices `[...]`."""
        return self.known_factors().factors(self._indices(indices))

    def known_factors(self) -> Grid | Labels:
        """Return the grid or the labels; raise `DataError` if the factors are unknown."""
        known = self.grid or self.labels
        if known is None:
            raise DataError(
                f"the factors of {self.name} are unknown; pass factors= when loading",
                subject="factors",
                value=self.name,
            )
        return known

    def index(self, factors: Any) -> Array:
        """Return the indices `[...]` of images with classes `[..., K]`, inverting `factors`."""
        factors = as_integers(factors)
        return self._grid().index(factors if self.device is None else self._tensor(factors))

    def draw(self, count: int, seed: int = 0, step: int = 0, fixed: Choice | None = None) -> Batch:
        """Sample images independently and with replacement.

        Args:
            count: Number of images.
            seed: Random seed.
            step: Step of the random stream; `seed` and `step` determine the sample.
            fixed: Allowed class or classes of some factors.
        """
        indices = self.draw_indices(count, Stream(self._seed(seed), "draw", step), fixed)
        return self._batch(indices, seed, step, self._tensor(np.arange(count)))

    def draw_pairs(
        self, count: int, seed: int = 0, step: int = 0, rule: PairRule | None = None
    ) -> tuple[Batch, Batch]:
        """Sample pairs of images; `rule` (default `WeakPairs()`) derives the second image."""
        first, second = self.draw_index_pairs(count, self._seed(seed), step, rule or WeakPairs())
        items = self._tensor(np.arange(count))
        return self._batch(first, seed, step, items), self._batch(
            second, seed, step, items + count
        )

    def draw_indices(self, count: int, stream: Stream, fixed: Choice | None = None) -> Tensor:
        """Sample indices `[*S, count]` from a stream with seeds `[*S]`, on the stream's device."""
        if self.weights is not None:
            table = (
                cumulate(self.weights * self._grid().where(fixed)) if fixed else self._cumulative
            )
            table = table.to(stream.seeds.device)
            return torch.searchsorted(table, stream.uniform64(count), right=True)
        if not fixed:
            return stream.integers(len(self), count, 1)[..., 0]
        grid = self._grid()
        words = stream.words(count, len(grid.axes))
        choice = {name: grid.classes(name, classes) for name, classes in fixed.items()}
        columns = []
        for k, axis in enumerate(grid.axes):
            allowed = torch.tensor(choice.get(axis.name, range(len(axis))), device=words.device)
            columns.append(allowed[words[..., k] * len(allowed) >> 32])
        return grid.index(torch.stack(columns, -1))

    def draw_index_pairs(
        self, count: int, seed: int | Tensor, step: int | Tensor, rule: PairRule
    ) -> tuple[Tensor, Tensor]:
        """Sample index pairs, two tensors `[*S, count]` for seeds `[*S]`, on the seeds' device."""
        if self.weights is not None:
            raise DataError(
                f"pairs need a complete grid, but {self.name} is restricted or correlated; sample "
                "pairs from the unrestricted data set",
                subject="pairs",
            )
        grid = self._grid()
        first = self.draw_indices(count, Stream(seed, "draw", step))
        return first, grid.index(rule(grid, grid.factors(first), Stream(seed, "pair", step)))

    def leave_out(self, /, **choice: int | Iterable[int]) -> "Dataset":
        """Return this data set without images whose named factors all have the given classes.

        Example:
            >>> import unweave as uw
            >>> data = uw.data.load("dsprites").leave_out(shape=2, posX=range(16))  # no left heart
            >>> len(data.support)
            614400
        """
        return self._reweighted(~self._grid().where(choice), ["leave_out", self._as_lists(choice)])

    def only(self, /, **choice: int | Iterable[int]) -> "Dataset":
        """Return this data set with only the images that `leave_out` would exclude."""
        return self._reweighted(self._grid().where(choice), ["only", self._as_lists(choice)])

    def correlate(self, first: str, second: str, correlation: float) -> "Dataset":
        """Return this data set with two correlated factors, each with a uniform marginal.

        The joint distribution has the largest entropy of all with uniform marginals and this
        Pearson correlation of the classes (see `correlated_joint`). All other factors stay
        independent.
        """
        grid = self._grid()
        one, two = grid.column(first), grid.column(second)
        if one == two:
            raise DataError(
                f"first and second must be different factors, got {first!r} twice",
                subject="second",
                value=second,
            )
        joint = correlated_joint(grid.sizes[one], grid.sizes[two], correlation)
        classes = grid.factors(np.arange(len(self)))
        weights = joint[classes[:, one], classes[:, two]]
        return self._reweighted(weights, ["correlate", first, second, correlation])

    def slice(self, /, **choice: int | Iterable[int]) -> "Dataset":
        """Return the sub-grid in which the named factors have only the given classes."""
        grid = self._grid()
        if self.weights is not None or self.variants > 1 or self.device is not None:
            raise DataError(
                f"cannot slice {self.name} if it is weighted, on a device or has variants; "
                "slice right after loading",
                subject="slice",
                value=self.name,
            )
        kept = {
            axis.name: grid.classes(axis.name, choice.get(axis.name, range(len(axis))))
            for axis in grid.axes
        }
        axes = tuple(
            replace(axis, values=[axis.values[c] for c in kept[axis.name]]) for axis in grid.axes
        )
        store = self.store.take(grid.where(choice).nonzero()[0])
        origin = (*self.origin, ["slice", self._as_lists(choice)])
        return replace(self, store=store, grid=Grid(axes), origin=origin)

    @property
    def support(self) -> np.ndarray:
        """Indices of all images that can be sampled."""
        return np.arange(len(self)) if self.weights is None else self.weights.nonzero()[0]

    def to(self, device: str | torch.device) -> "Dataset":
        """Return this data set with its images as torch tensors on a device."""
        device = torch.device(device)
        appearance = self.appearance.to(device) if self.appearance else None
        return replace(self, store=self.store.to(device), appearance=appearance, device=device)

    def __getitem__(self, indices: Any) -> Array:
        """Return one image `[H, W, C]` for an integer, or several for slices and lists."""
        return self.images(
            np.arange(len(self))[indices] if isinstance(indices, slice) else indices
        )

    def __repr__(self) -> str:
        height, width, channels = self.shape
        each = f" × {self.variants} variants" if self.variants > 1 else ""
        place = f"on {self.device}" if self.device else "in memory"
        place = "on disk" if isinstance(self.store, Streamed) else place
        lines = [
            f"{self.name}: {len(self):,}{each} images of {height} × {width} × {channels}, "
            f"{self.store.nbytes / 1e6:,.1f} MB {place}"
        ]
        if self.weights is not None:
            lines.append(f"  sampled with weights from {len(self.support):,} of them")
        lines += [f"  {note}" for note in self.notes[:MAX_NOTES]]
        if len(self.notes) > MAX_NOTES:
            lines.append(f"  … and {counted(len(self.notes) - MAX_NOTES, 'more note')} in .notes")
        if self.skipped and not self.notes:
            lines.append(f"  {counted(len(self.skipped), 'file')} could not be read")
        return "\n".join([*lines, str(self.grid or self.labels or "  factors unknown")])

    @cached_property
    def _cumulative(self) -> Tensor:
        weights = self.weights if self.weights is not None else np.ones(len(self))
        return cumulate(weights).to(self.device or "cpu")

    def _grid(self) -> Grid:
        if self.grid is None:
            raise DataError(
                f"this operation needs a grid of factors, which {self.name} does not have; load "
                "it with a table of factors that covers every combination",
                subject="grid",
                value=self.name,
            )
        return self.grid

    def _as_lists(self, choice: Choice) -> dict[str, list[int]]:
        return {name: self._grid().classes(name, classes) for name, classes in choice.items()}

    def _reweighted(self, factor: np.ndarray, step: list[Any]) -> "Dataset":
        weights = factor * (1.0 if self.weights is None else self.weights)
        if not weights.any():
            raise DataError(
                f"no images of {self.name} are left to sample; exclude fewer", subject="weights"
            )
        return replace(self, weights=weights, origin=(*self.origin, step))

    def _indices(self, indices: Any) -> Array:
        """Convert indices to the array type of this data set; checked in host memory only."""
        if self.device is not None:
            return torch.as_tensor(indices, device=self.device)
        indices = as_integers(indices)
        if np.any((indices < 0) | (indices >= len(self))):
            raise DataError(
                f"indices of {self.name} must be 0 … {len(self) - 1:,}, got "
                f"{indices.min():,} … {indices.max():,}",
                subject="indices",
            )
        return indices

    def _tensor(self, values: Any) -> Tensor:
        return torch.as_tensor(values, device=self.device)

    def _seed(self, seed: int | Tensor) -> Tensor:
        return self._tensor(seed if isinstance(seed, Tensor) else check_seed(seed))

    def _native(self, tensor: Tensor) -> Array:
        return tensor if self.device is not None else tensor.numpy()

    def _bytes(self, indices: Array, seed: int, step: int, items: Tensor) -> Array:
        if not self.random:
            return self.store.gather(indices)
        pixels = self.pixels(indices.reshape(-1), seed, step, items)
        rounded = (pixels * 255).round().byte()
        return self._native(rounded.reshape(*indices.shape, *self.shape))

    def _batch(self, indices: Tensor, seed: int, step: int, items: Tensor) -> Batch:
        native = self._native(indices)
        factors = self.factors(native) if self.grid or self.labels else None
        return Batch(native, self._bytes(native, seed, step, items), factors)


def scaled_factors(data: Dataset, names: Sequence[str], indices: Any = None) -> Tensor:
    """Return factors standardised to mean 0 and variance 1 for uniformly distributed classes.

    Class k of n becomes (k - (n - 1) / 2) / √((n² - 1) / 12).

    Args:
        data: Data set with known factors.
        names: Names of the factors.
        indices: Indices `[N]` of the images (default: all).

    Returns:
        float32 `[N, K]`, on the device of the data.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posY=0)
        >>> scaled_factors(data, ["posX"], [0, 31]).round(decimals=2)
        tensor([[-1.6800],
                [ 1.6800]])
    """
    known = data.known_factors()
    columns = [known.column(name) for name in names]
    chosen = np.arange(len(data)) if indices is None else indices
    classes = torch.as_tensor(data.factors(chosen))[..., columns].float()
    sizes = torch.tensor([len(known.axes[k]) for k in columns], device=classes.device)
    spread = ((sizes**2 - 1) / 12).sqrt().clamp_min(0.5)  # 0 for a single class, else at least ½
    return (classes - (sizes - 1) / 2) / spread
