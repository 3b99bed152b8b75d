"""Arrays on disk that are too large for memory: memory-mapped files and Zarr arrays.

Their images are read when they are needed. Conversions to bytes are applied to what is read, so
that the pixels are those of an array in memory, bit for bit.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from unweave.data.grid import Array
from unweave.data.stores import Bytes, Store
from unweave.io.arrays import free_memory, on_host

__all__ = ["OnDisk", "Streamed", "changed", "parts", "too_large"]

SHARE = 0.5
"""Share of the free memory of a device that images may take; larger arrays are streamed."""
VALUES_AT_ONCE = 2**24

Images = TypeVar("Images")


@dataclass(frozen=True, eq=False)
class OnDisk:
    """An array whose first axis counts images, read in parts.

    Args:
        source: Array with `shape`, `dtype` and indexing by slices; Zarr arrays also have `oindex`.
        changes: Functions that map a part of the array to images, applied in order.
        rows: Rows of the source that are used, in this order (default: all).
    """

    source: Any
    changes: tuple[Callable[[np.ndarray], np.ndarray], ...] = ()
    rows: np.ndarray | None = None
    shape: tuple[int, ...] = ()
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.uint8))

    @classmethod
    def of(cls, source: Any) -> Self:
        """Wrap an array."""
        return cls(source, shape=tuple(source.shape), dtype=np.dtype(source.dtype))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[np.ndarray]:
        for _, part in parts(self):
            yield from part

    def __getitem__(self, index: Any) -> np.ndarray:
        """Read images at integers, slices or arrays of indices `[...]`."""
        if isinstance(index, slice) and self.rows is None:
            return self._changed(np.asarray(self.source[index]))
        places = np.arange(len(self))[index] if isinstance(index, slice) else np.asarray(index)
        rows = places if self.rows is None else self.rows[places]
        # Each image once and in order, which disks and the chunks of Zarr need.
        unique, inverse = np.unique(rows, return_inverse=True)
        found = self._changed(np.asarray(getattr(self.source, "oindex", self.source)[unique]))
        return found[inverse.reshape(rows.shape)]

    def then(self, change: Callable[[np.ndarray], np.ndarray]) -> "OnDisk":
        """Return the array with a function applied to the parts that are read."""
        example = change(self[:1])
        shape, changes = (len(self), *example.shape[1:]), (*self.changes, change)
        return replace(self, changes=changes, shape=shape, dtype=example.dtype)

    def take(self, rows: np.ndarray) -> "OnDisk":
        """Return the array with only these images, without reading them."""
        chosen = rows if self.rows is None else self.rows[rows]
        return replace(self, rows=chosen, shape=(len(chosen), *self.shape[1:]))

    def _changed(self, part: np.ndarray) -> np.ndarray:
        for change in self.changes:
            part = change(part)
        return part


@dataclass(frozen=True, eq=False)
class Streamed:
    """Store of images that are read from disk when they are gathered.

    A GPU with enough free memory holds all of them instead. In training on a GPU, the batches are
    read ahead and put into `queue`, because a CUDA graph cannot read files.
    """

    array: OnDisk
    device: torch.device | None = None
    queue: deque[Tensor] = field(default_factory=deque)

    @property
    def shape(self) -> tuple[int, int, int]:
        height, width, channels = self.array.shape[1:]
        return height, width, channels

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def __len__(self) -> int:
        return len(self.array)

    def gather(self, indices: Array) -> Array:
        if self.queue:
            return self.queue.popleft()
        images = self.array[on_host(indices)]
        tensor = isinstance(indices, Tensor)
        return torch.from_numpy(np.ascontiguousarray(images)).to(self.device) if tensor else images

    def take(self, indices: np.ndarray) -> "Streamed":
        return replace(self, array=self.array.take(indices))

    def to(self, device: str | torch.device) -> Store:
        device = torch.device(device)
        if device.type != "cuda" or self.nbytes > SHARE * torch.cuda.mem_get_info(device)[0]:
            return replace(self, device=device, queue=deque())
        images = torch.empty((len(self), *self.shape), dtype=torch.uint8, device=device)
        for start, part in parts(self.array):
            images[start : start + len(part)] = torch.from_numpy(np.ascontiguousarray(part))
        return Bytes(images)

    @contextmanager
    def fed(self, batches: list[Tensor]) -> Iterator[None]:
        """Return these batches from the next calls of `gather`."""
        self.queue.extend(batches)
        try:
            yield
        finally:
            self.queue.clear()


def too_large(array: Any) -> bool:
    """Whether an array is too large to be copied into the free memory."""
    return math.prod(array.shape) * np.dtype(array.dtype).itemsize > SHARE * free_memory()


def changed(array: Images, change: Callable[[np.ndarray], np.ndarray]) -> Images:
    """Apply a function to an array now, or to the parts that are read if it is on disk."""
    found: Any = array.then(change) if isinstance(array, OnDisk) else change(array)  # type: ignore[arg-type]
    return found


def parts(images: Any) -> Iterator[tuple[int, np.ndarray]]:
    """Yield parts of about 16 million values, as the array may nearly fill the memory."""
    step = max(1, VALUES_AT_ONCE // math.prod(images.shape[1:]))
    for start in range(0, len(images), step):
        yield start, images[start : start + step]
