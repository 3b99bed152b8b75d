"""A data set: images in memory and, where known, the factors that made them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from unweave.data.grid import Array, Grid, Labels, whole_numbers
from unweave.data.pairs import PairRule, WeakPairs
from unweave.data.stores import Store
from unweave.data.weights import correlated_joint, cumulate
from unweave.errors import DataError
from unweave.io.arguments import check_seed
from unweave.random import Stream
from unweave.text import counted

__all__ = ["Appearance", "Batch", "Choice", "Dataset", "as_floats"]

Choice = Mapping[str, int | Iterable[int]]
"""Factors by name, each with the class or the several classes that it may have."""


class Batch(NamedTuple):
    """A draw: which images, the images themselves, and their factors where these are known."""

    indices: Array
    images: Array
    factors: Array | None


class Appearance(Protocol):
    """What makes an image random given its factors: a colour, noise, a background."""

    @property
    def channels(self) -> int: ...

    def __call__(self, images: Tensor, stream: Stream, items: Tensor) -> Tensor:
        """Images `[*S, n, H, W, C]`, see `as_floats`, to float32 `[*S, n, H, W, channels]`."""
        ...

    def to(self, device: torch.device) -> "Appearance": ...


def as_floats(images: Tensor) -> Tensor:
    """Images in [0, 1], from bytes 0 … 255 or as they are."""
    return images.float() / 255 if images.dtype == torch.uint8 else images


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Images, the factors that made them, and ways to draw from them.

    Indices, factors and images are NumPy arrays; after `to(device)` they are torch tensors on that
    device. Where an image is random given its factors, it is a function of its index and of a
    seed, so that one seed stands for one fixed data set.

    Args:
        name: As on the command line and in tables.
        store: The images.
        grid: All combinations of the factors, in index order, where the images form such a grid.
        labels: The factors image by image, where they are known but form no grid.
        variants: Stored images per index, one of which is drawn (the instances of SmallNORB).
        appearance: What is drawn anew for every image (the colours of Color-dSprites).
        weights: `[N]`, how often each image is drawn; None draws all equally often.
        files: Where the images came from, one name per image, where each had a file of its own.
        skipped: The files that could not be read, with the reason.
        device: Where the images are; None is host memory, speaking NumPy.
        origin: How it was made, step by step, as plain data: what a saved model remembers of it.

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

    def __post_init__(self) -> None:
        known = len(self.grid) if self.grid else len(self.labels.classes) if self.labels else None
        if known is not None and known != len(self):
            raise DataError(f"{self.name} has {len(self):,} images, but factors for {known:,}")

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
        """The images `[..., H, W, C]`, bytes 0 … 255, with the given indices `[...]`."""
        indices = self._indices(indices)
        return self._bytes(indices, seed, 0, self._tensor(indices).flatten())

    def pixels(
        self,
        indices: Any,
        seed: int | Tensor = 0,
        step: int | Tensor = 0,
        items: Tensor | None = None,
    ) -> Tensor:
        """The images as float32 in [0, 1], not rounded to bytes, `[*S, n, H, W, C]`.

        Args:
            indices: `[*S, n]`
            seed: One number, or seeds `[*S]`; with `step`, the stream that makes what is random in
                an image.
            step: See `seed`.
            items: The numbers `[n]` of the images in their stream. By default an image's index, so
                that it always looks the same under one seed; a training batch numbers its places.
        """
        return as_floats(self.inputs(indices, seed, step, items))

    def inputs(
        self,
        indices: Any,
        seed: int | Tensor = 0,
        step: int | Tensor = 0,
        items: Tensor | None = None,
    ) -> Tensor:
        """What networks take: `pixels`, or the same as bytes 0 … 255 where that is exact."""
        where = self._tensor(self._indices(indices))
        items = where if items is None else items
        if self.variants > 1:
            stream = Stream(self._seed(seed), "variant", step)
            chosen = stream.integers(self.variants, items, 1)[..., 0]
            where = where * self.variants + chosen
        images = torch.as_tensor(self.store.gather(self._native(where)))
        if self.appearance is None:
            return images
        return self.appearance(images, Stream(self._seed(seed), "appearance", step), items)

    def factors(self, indices: Any) -> Array:
        """The factor classes `[..., K]` of the images with indices `[...]`."""
        known = self.grid or self.labels
        if known is None:
            raise DataError(
                f"the factors of {self.name} are not known; give a table of them when loading"
            )
        return known.factors(self._indices(indices))

    def index(self, factors: Any) -> Array:
        """The indices `[...]` of images with classes `[..., K]`, the inverse of `factors`."""
        factors = whole_numbers(factors)
        return self._grid().index(factors if self.device is None else self._tensor(factors))

    def draw(self, count: int, seed: int = 0, step: int = 0, fixed: Choice | None = None) -> Batch:
        """Draw images independently and with replacement.

        Args:
            count: How many.
            seed: With `step`, all that the draw depends on.
            step: See `seed`.
            fixed: Factors with the class, or the several classes, that they may have.
        """
        indices = self.draw_indices(count, Stream(self._seed(seed), "draw", step), fixed)
        return self._batch(indices, seed, step, self._tensor(np.arange(count)))

    def draw_pairs(
        self, count: int, seed: int = 0, step: int = 0, rule: PairRule | None = None
    ) -> tuple[Batch, Batch]:
        """Draw pairs of images, the second following from the first by a rule (`WeakPairs()`)."""
        first, second = self.draw_index_pairs(count, self._seed(seed), step, rule or WeakPairs())
        places = self._tensor(np.arange(count))
        return self._batch(first, seed, step, places), self._batch(
            second, seed, step, places + count
        )

    def draw_indices(self, count: int, stream: Stream, fixed: Choice | None = None) -> Tensor:
        """Indices `[*S, count]` from a stream with seeds `[*S]`, on the stream's device."""
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
        """Two aligned tensors of indices `[*S, count]` for seeds `[*S]`, on the seeds' device."""
        if self.weights is not None:
            raise DataError(
                "pairs are drawn from a whole grid, but this one is restricted or correlated"
            )
        grid = self._grid()
        first = self.draw_indices(count, Stream(seed, "draw", step))
        return first, grid.index(rule(grid, grid.factors(first), Stream(seed, "pair", step)))

    def leave_out(self, /, **choice: int | Iterable[int]) -> "Dataset":
        """This data set, never drawing images whose named factors all have one of these classes.

        Example:
            >>> import unweave as uw
            >>> data = uw.data.load("dsprites").leave_out(shape=2, posX=range(16))  # no left heart
            >>> len(data.support)
            614400
        """
        return self._reweighted(~self._grid().where(choice), ["leave_out", self._listed(choice)])

    def only(self, /, **choice: int | Iterable[int]) -> "Dataset":
        """This data set, drawing only what `leave_out` with the same choice leaves out."""
        return self._reweighted(self._grid().where(choice), ["only", self._listed(choice)])

    def correlate(self, first: str, second: str, correlation: float) -> "Dataset":
        """This data set with two factors drawn correlated, each still uniform by itself.

        Of all joint laws of the two with uniform marginals and this Pearson correlation of their
        classes it is the one of largest entropy (see `correlated_joint`); all other factors stay
        independent.
        """
        grid = self._grid()
        one, two = grid.column(first), grid.column(second)
        if one == two:
            raise DataError(
                f"{first!r} is always correlated with itself; name two different factors"
            )
        joint = correlated_joint(grid.sizes[one], grid.sizes[two], correlation)
        classes = grid.factors(np.arange(len(self)))
        weights = joint[classes[:, one], classes[:, two]]
        return self._reweighted(weights, ["correlate", first, second, correlation])

    def slice(self, /, **choice: int | Iterable[int]) -> "Dataset":
        """A smaller data set: the sub-grid where the named factors keep the given classes only."""
        grid = self._grid()
        if self.weights is not None or self.variants > 1 or self.device is not None:
            raise DataError(
                f"{self.name} can only be sliced as it was loaded: slice first, then go on"
            )
        kept = {
            axis.name: grid.classes(axis.name, choice.get(axis.name, range(len(axis))))
            for axis in grid.axes
        }
        axes = tuple(
            replace(axis, values=[axis.values[c] for c in kept[axis.name]]) for axis in grid.axes
        )
        store = self.store.take(grid.where(choice).nonzero()[0])
        origin = (*self.origin, ["slice", self._listed(choice)])
        return replace(self, store=store, grid=Grid(axes), origin=origin)

    @property
    def support(self) -> np.ndarray:
        """The indices of all images that can be drawn."""
        return np.arange(len(self)) if self.weights is None else self.weights.nonzero()[0]

    def to(self, device: str | torch.device) -> "Dataset":
        """The same data set with its images on a device, speaking torch."""
        device = torch.device(device)
        appearance = self.appearance.to(device) if self.appearance else None
        return replace(self, store=self.store.to(device), appearance=appearance, device=device)

    def __getitem__(self, indices: Any) -> Array:
        """`data[3]` is one image `[H, W, C]`; slices and lists give several."""
        return self.images(
            np.arange(len(self))[indices] if isinstance(indices, slice) else indices
        )

    def __repr__(self) -> str:
        height, width, channels = self.shape
        each = f" × {self.variants} variants" if self.variants > 1 else ""
        place = f"on {self.device}" if self.device else "in memory"
        lines = [
            f"{self.name}: {len(self):,}{each} images of {height} × {width} × {channels}, "
            f"{self.store.nbytes / 1e6:,.1f} MB {place}"
        ]
        if self.weights is not None:
            lines.append(f"  drawn with weights from {len(self.support):,} of them")
        if self.skipped:
            lines.append(f"  {counted(len(self.skipped), 'file')} could not be read")
        return "\n".join([*lines, str(self.grid or self.labels or "  factors unknown")])

    @cached_property
    def _cumulative(self) -> Tensor:
        weights = self.weights if self.weights is not None else np.ones(len(self))
        return cumulate(weights).to(self.device or "cpu")

    def _grid(self) -> Grid:
        if self.grid is None:
            raise DataError(f"{self.name} has no grid of factors, which this needs")
        return self.grid

    def _listed(self, choice: Choice) -> dict[str, list[int]]:
        return {name: self._grid().classes(name, classes) for name, classes in choice.items()}

    def _reweighted(self, factor: np.ndarray, step: list[Any]) -> "Dataset":
        weights = factor * (1.0 if self.weights is None else self.weights)
        if not weights.any():
            raise DataError("nothing is left to draw; leave out less")
        return replace(self, weights=weights, origin=(*self.origin, step))

    def _indices(self, indices: Any) -> Array:
        """Indices as the kind of array this data set speaks; checked in host memory only."""
        if self.device is not None:
            return torch.as_tensor(indices, device=self.device)
        indices = whole_numbers(indices)
        if np.any((indices < 0) | (indices >= len(self))):
            raise DataError(
                f"{self.name} has images 0 … {len(self) - 1:,}, but an index is outside that"
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
