"""Storage of images in memory, and access to batches of them.

Every store has `gather(indices)`, which returns uint8 images `[..., H, W, C]` for indices `[...]`:
NumPy arrays in host memory and torch tensors after `to(device)`. `Floats` and `Curves` return
float32 instead.
"""

import math
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
import torch

from unweave.data.grid import Array
from unweave.io.arrays import writable
from unweave.kernels import fused

__all__ = ["Bits", "Bytes", "Curves", "Floats", "Store"]


class Store(Protocol):
    """Interface of an image store."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        ...

    @property
    def nbytes(self) -> int: ...

    def __len__(self) -> int: ...

    def gather(self, indices: Array) -> Array: ...

    def take(self, indices: np.ndarray) -> "Store":
        """Return a store with only these images."""
        ...

    def to(self, device: str | torch.device) -> "Store": ...


@dataclass(frozen=True, eq=False)
class _Stored:
    """Images in one array, indexed by its first axis."""

    array: Array

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)

    def __len__(self) -> int:
        return len(self.array)

    def take(self, indices: np.ndarray) -> Self:
        return replace(self, array=self.array[indices])

    def to(self, device: str | torch.device) -> Self:
        return replace(self, array=torch.as_tensor(writable(self.array)).to(device))


@dataclass(frozen=True, eq=False)
class Bytes(_Stored):
    """One byte per pixel and channel: `array` is uint8 `[N, H, W, C]`, possibly memory-mapped."""

    @property
    def shape(self) -> tuple[int, int, int]:
        height, width, channels = self.array.shape[1:]
        return height, width, channels

    def gather(self, indices: Array) -> Array:
        return self.array[indices]


@dataclass(frozen=True, eq=False)
class Bits(_Stored):
    """One bit per pixel: `array` is uint8 `[N, H * W * C / 8]`, packed as `np.packbits` does."""

    shape: tuple[int, int, int]

    @classmethod
    def pack(cls, images: np.ndarray) -> "Bits":
        """Pack images `[N, H, W, C]`, treating every non-zero byte as one."""
        height, width, channels = images.shape[1:]
        return cls(
            np.packbits(images.reshape(len(images), -1) > 0, axis=1), (height, width, channels)
        )

    def gather(self, indices: Array) -> Array:
        if isinstance(self.array, torch.Tensor) and fused(self.array):
            from unweave.kernels import gpu_bits as bits_gpu

            return bits_gpu.gather(self.array, indices, self.shape)
        rows = self.array[indices]
        bits: Array
        if isinstance(rows, torch.Tensor):
            shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=rows.device)
            bits = (rows[..., None] >> shifts & 1).flatten(-2)[..., : math.prod(self.shape)]
        else:
            bits = np.unpackbits(rows, axis=-1, count=math.prod(self.shape))
        return bits.reshape(*rows.shape[:-1], *self.shape) * 255


class Floats(Bytes):
    """Values in [0, 1] that are not multiples of 1/255: `array` is float32 `[N, H, W, C]`."""


class Curves(Bytes):
    """Curves instead of images: `array` is float32 `[N, T]`, and a curve has shape `T × 1 × 1`."""

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.array.shape[1], 1, 1
