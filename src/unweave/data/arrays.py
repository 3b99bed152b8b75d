"""Arrays of any common layout and type as images: bytes `[N, H, W, C]`, packed where binary."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from unweave.data.stores import Bits, Bytes, Store
from unweave.errors import DataError
from unweave.io.arrays import on_host

__all__ = ["as_images", "as_store"]


def as_images(array: Any, name: str) -> np.ndarray:
    """A NumPy or torch array as bytes `[N, H, W, C]`; see `unweave.data.custom.from_array`."""
    images = _channels_last(_numpy(array, name), name)
    return _bytes(images, name) if len(images) else images.astype(np.uint8)


def as_store(images: np.ndarray) -> Store:
    """Images `[N, H, W, C]` as a store, of bits where every pixel is black or white."""
    if not _only(images, 255):
        return Bytes(images)
    packed = np.concatenate([Bits.pack(part).array for _, part in _parts(images)])
    height, width, channels = images.shape[1:]
    return Bits(packed, (height, width, channels))


def _numpy(array: Any, name: str) -> np.ndarray:
    try:
        return on_host(array)
    except (RuntimeError, TypeError, ValueError) as error:
        raise DataError(f"{name} is no array of numbers ({error}); give one") from error


def _channels_last(array: np.ndarray, name: str) -> np.ndarray:
    """A view `[N, H, W, C]`."""
    if array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and array.shape[3] not in (1, 3) and array.shape[1] in (1, 3):
        array = np.moveaxis(array, 1, 3)
    elif array.ndim != 4 or array.shape[3] not in (1, 3):
        raise DataError(
            f"{name} has the shape {array.shape}, but images are [N, H, W], [N, H, W, C] or "
            "[N, C, H, W] with 1 or 3 channels; reshape it"
        )
    if 0 in array.shape[1:]:
        raise DataError(f"{name} has images without pixels, of shape {array.shape[1:]}; check it")
    return array


def _bytes(images: np.ndarray, name: str) -> np.ndarray:
    kind = images.dtype.kind
    if kind == "b":
        return _converted(images, lambda part: part * np.uint8(255))
    if kind == "f":
        _check_floats(images, name)
        return _converted(images, lambda part: np.rint(part.astype(np.float32) * 255))
    if kind not in "iu":
        raise DataError(
            f"{name} is of type {images.dtype}, but images are bytes, whole numbers 0 … 255, "
            "booleans or floats in [0, 1]; convert it"
        )
    if images.dtype != np.uint8:
        if images.min() < 0 or images.max() > 255:
            raise DataError(
                f"{name} has whole numbers from {images.min()} to {images.max()}, "
                "but pixels are 0 … 255; scale it"
            )
        images = images.astype(np.uint8)
    if _only(images, 1) and images.any() and not images.all():
        return _converted(images, lambda part: part * np.uint8(255))
    return images


def _check_floats(images: np.ndarray, name: str) -> None:
    low, high = math.inf, -math.inf
    bad, first = 0, (0, 0, 0)
    for start, part in _parts(images):
        odd = ~np.isfinite(part)
        if odd.any() and not bad:
            image, row, column, _ = (int(i[0]) for i in odd.nonzero())
            first = (start + image, row, column)
        bad += int(odd.sum())
        low, high = min(low, float(part.min())), max(high, float(part.max()))
    if bad:
        raise DataError(
            f"{name} has {bad:,} values that are NaN or infinite, the first in image {first[0]} "
            f"at row {first[1]}, column {first[2]}; replace them or leave these images out"
        )
    if low < 0 or high > 1:
        raise DataError(
            f"{name} has floats from {low:.4g} to {high:.4g}, but they must be in [0, 1]; "
            "scale them, or give bytes 0 … 255 as uint8"
        )


def _converted(images: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    out = np.empty(images.shape, dtype=np.uint8)
    for start, part in _parts(images):
        out[start : start + len(part)] = function(part)
    return out


def _parts(images: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Pieces of some 16 million values: arrays may be nearly as large as memory."""
    step = max(1, 2**24 // math.prod(images.shape[1:]))
    for start in range(0, len(images), step):
        yield start, images[start : start + step]


def _only(images: np.ndarray, high: int) -> bool:
    return all(((part == 0) | (part == high)).all() for _, part in _parts(images))
