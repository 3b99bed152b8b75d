"""How images lie in memory, and how a batch of them is taken out.

Every store gives `gather(indices)`: uint8 images `[..., H, W, C]` for indices `[...]`, NumPy in
host memory and torch after `to(device)`; only `Floats` and `Curves` have float32 in their place.
"""

import math
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch

from unweave.data.grid import Array
from unweave.io.arrays import writable
from unweave.kernels.dispatch import fused

__all__ = ["Bits", "Bytes", "Curves", "Floats", "Store"]


class Store(Protocol):
    """What a data set needs of its images."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        ...

    @property
    def nbytes(self) -> int: ...

    def __len__(self) -> int: ...

    def gather(self, indices: Array) -> Array: ...

    def take(self, indices: np.ndarray) -> "Store":
        """A store of these images only."""
        ...

    def to(self, device: str | torch.device) -> "Store": ...


@dataclass(frozen=True, eq=False)
class Bytes:
    """One byte per pixel and channel: `array` is uint8 `[N, H, W, C]`, possibly memory-mapped."""

    array: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        height, width, channels = self.array.shape[1:]
        return height, width, channels

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)

    def __len__(self) -> int:
        return len(self.array)

    def gather(self, indices: Array) -> Array:
        return self.array[indices]

    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.array[indices])

    def to(self, device: str | torch.device) -> Self:
        return type(self)(_tensor(self.array, device))


@dataclass(frozen=True, eq=False)
class Bits:
    """One bit per pixel: `array` is uint8 `[N, H * W * C / 8]`, packed as `np.packbits` does."""

    array: Array
    shape: tuple[int, int, int]

    @classmethod
    def pack(cls, images: np.ndarray) -> "Bits":
        """Pack images `[N, H, W, C]` whose every non-zero byte counts as one."""
        height, width, channels = images.shape[1:]
        return cls(
            np.packbits(images.reshape(len(images), -1) > 0, axis=1), (height, width, channels)
        )

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)

    def __len__(self) -> int:
        return len(self.array)

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

    def take(self, indices: np.ndarray) -> "Bits":
        return Bits(self.array[indices], self.shape)

    def to(self, device: str | torch.device) -> "Bits":
        return Bits(_tensor(self.array, device), self.shape)


class Floats(Bytes):
    """Values in [0, 1] that bytes would round: `array` is float32 `[N, H, W, C]`."""


class Curves(Bytes):
    """Real numbers in place of images: `array` is float32 `[N, T]`, a curve being `T × 1 × 1`."""

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.array.shape[1], 1, 1


def _tensor(array: Array, device: str | torch.device) -> torch.Tensor:
    return torch.as_tensor(writable(array)).to(device)
