"""Conversion of arrays and torch datasets to images: bytes `[N, H, W, C]`, or packed bits."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Dataset as TorchDataset

from unweave.data.pictures import bit_depth, scaled_bytes
from unweave.data.stores import Bits, Bytes, Store
from unweave.data.streaming import OnDisk, Streamed, changed, parts, too_large
from unweave.data.zarr_files import is_zarr_array
from unweave.errors import DataError
from unweave.io.arrays import on_host
from unweave.progress import track

__all__ = ["LABEL", "Scale", "as_images", "as_store", "images_and_labels", "is_torch_dataset"]

LABEL = "label"
"""Name of the factor that holds the labels of a torch dataset."""
MIN_PIXELS = 8
"""Smallest height and width of images; smaller axes are taken for channels or measurements."""
NARROW, MAX_ASPECT = 16, 4
"""Images narrower than `NARROW` are rejected as time series above this ratio of the sides."""
BATCH = 256
"""Number of items stacked at once: as floats they take four times the memory of bytes."""


class Scale(NamedTuple):
    """How integers of more than 8 bits were converted to bytes."""

    bits: int
    """Bit depth of the white value."""
    largest: int
    """Largest value of the array."""
    place: int
    """Index of the first image with the largest value."""
    clipped: tuple[int, ...]
    """Indices of the images with larger values than the white value."""


def as_images(array: Any, name: str, bits: int | None = None) -> tuple[Any, Scale | None]:
    """Convert an array or tensor to bytes `[N, H, W, C]`; see `unweave.data.custom.from_array`.

    Returns:
        The images, which are `OnDisk` if too large for memory, and the scale of integers if they
        have more than 8 bits.
    """
    images = _channels_last(_numpy(array, name), name)
    if not len(images):
        return images.astype(np.uint8), None
    if images.dtype.kind in "iu" and images.dtype != np.uint8:
        return _scaled(images, name, bits)
    return _bytes(images, name), None


def as_store(images: Any) -> Store:
    """Store images `[N, H, W, C]`, as bits if every pixel is black or white."""
    if not _has_only(images, 255):
        return Streamed(images) if isinstance(images, OnDisk) else Bytes(images)
    packed = np.concatenate([Bits.pack(part).array for _, part in parts(images)])
    height, width, channels = images.shape[1:]
    return Bits(packed, (height, width, channels))


def _numpy(array: Any, name: str) -> Any:
    """Return a NumPy array; one that is on disk and too large for memory is not read."""
    on_disk = isinstance(array, np.memmap) or is_zarr_array(array)
    if on_disk and array.shape and array.shape[0] and too_large(array):
        return OnDisk.of(array)
    if is_zarr_array(array):
        array = array[...]
    try:
        converted = on_host(array)
    except (RuntimeError, TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be a numeric array, got {type(array).__name__} ({error})",
            subject=name,
            value=type(array).__name__,
        ) from error
    if not converted.ndim:
        raise DataError(
            f"{name} must be an array of images, got {type(array).__name__}; pass the array",
            subject=name,
            value=type(array).__name__,
        )
    return converted


def _channels_last(array: Any, name: str) -> Any:
    """Return a view `[N, H, W, C]`."""
    shape = array.shape
    if array.ndim == 3:
        array = changed(array, lambda part: part[..., None])
    if array.ndim != 4:
        raise DataError(
            f"{name} must have shape [N, H, W], [N, H, W, C] or [N, C, H, W], got {shape}; "
            f"{_advice(shape)}",
            subject=name,
            value=shape,
        )
    # Axes of size 1 or 3 hold channels before others, and short axes before long ones.
    if _unlike_channels(array.shape[1]) < _unlike_channels(array.shape[3]):
        array = changed(array, lambda part: np.moveaxis(part, 1, 3))
    if 0 in array.shape[1:]:
        raise DataError(
            f"the images in {name} must have pixels, got shape {array.shape[1:]}",
            subject=name,
            value=array.shape[1:],
        )
    short, long = sorted(array.shape[1:3])
    if short < MIN_PIXELS or (short < NARROW and long > MAX_ASPECT * short):
        height, width = array.shape[1:3]
        raise DataError(
            f"height and width in {name} must be at least {MIN_PIXELS} pixels, or {NARROW} if one "
            f"is more than {MAX_ASPECT} times the other, got {height} × {width} from shape "
            f"{shape}; {_advice(shape)}",
            subject=name,
            value=shape,
        )
    return array


def _advice(shape: tuple[int, ...]) -> str:
    """Return what to do with an array of this shape, which does not hold images."""
    if len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) >= MIN_PIXELS:
        return "if it is a single image, stack several of them as [N, H, W, C]"
    if len(shape) <= 3:
        return (
            "use uw.Unweaver for rows of numbers and time series, and reshape flattened images "
            "to [N, H, W]"
        )
    return "check the order of the axes"


def _unlike_channels(size: int) -> int:
    """Return a rank of axes: the axis with the lowest rank holds the channels."""
    return 0 if size in (1, 3) else size


def _bytes(images: Any, name: str) -> Any:
    kind = images.dtype.kind
    if kind == "b":
        return _converted(images, lambda part: part * np.uint8(255))
    if kind == "f":
        _check_floats(images, name)
        return _converted(images, lambda part: np.rint(part.astype(np.float32) * 255))
    if images.dtype != np.uint8:
        raise DataError(
            f"{name} must hold integers 0 … 255, booleans or floats in [0, 1], got {images.dtype}",
            subject=name,
            value=images.dtype,
        )
    if _has_only(images, 1) and _extremes(images) == (0, 1):
        return _converted(images, lambda part: part * np.uint8(255))
    return images


def _scaled(images: Any, name: str, bits: int | None) -> tuple[Any, Scale | None]:
    """Convert integers other than bytes; the white value of all images is that of `bits`.

    Larger values than 255 are allowed for the type uint16, and for others if `bits` is given.
    """
    low, high = _extremes(images)
    deep = bits is not None or (images.dtype.itemsize == 2 and images.dtype.kind == "u")
    if low < 0 or high > (65_535 if deep else 255):
        fix = "rescale them" if deep else "rescale them, or pass bits= or an array of type uint16"
        raise DataError(
            f"integers in {name} must be 0 … {65_535 if deep else 255:,}, got {low:,} … "
            f"{high:,}; {fix}",
            subject=name,
            value=(low, high),
        )
    if bits is None and high <= 255:
        return _bytes(changed(images, lambda part: part.astype(np.uint8)), name), None
    bits = bits or bit_depth(int(high))
    top, place, clipped = 2**bits - 1, -1, []
    for start, part in parts(images):
        largest = part.reshape(len(part), -1).max(1)
        clipped += (start + np.flatnonzero(largest > top)).tolist()
        if place < 0 and largest.max() == high:
            place = start + int(largest.argmax())
    scaled = _converted(images, lambda part: scaled_bytes(part, top))
    return scaled, Scale(bits, int(high), place, tuple(clipped))


def _check_floats(images: Any, name: str) -> None:
    low, high = math.inf, -math.inf
    bad, first = 0, (0, 0, 0)
    for start, part in parts(images):
        odd = ~np.isfinite(part)
        if odd.any() and not bad:
            image, row, column, _ = (int(i[0]) for i in odd.nonzero())
            first = (start + image, row, column)
        bad += int(odd.sum())
        low, high = min(low, float(part.min())), max(high, float(part.max()))
    if bad:
        raise DataError(
            f"{name} has {bad:,} NaN or infinite values, the first in image {first[0]} "
            f"at row {first[1]}, column {first[2]}; replace them or drop these images",
            subject=name,
            value=first,
        )
    if low < 0 or high > 1:
        raise DataError(
            f"floats in {name} must be in [0, 1], got {low:.4g} … {high:.4g}; "
            "rescale them, or pass bytes 0 … 255 as uint8",
            subject=name,
            value=(low, high),
        )


def _converted(images: Any, function: Callable[[np.ndarray], np.ndarray]) -> Any:
    if isinstance(images, OnDisk):
        return images.then(lambda part: function(part).astype(np.uint8))
    out = np.empty(images.shape, dtype=np.uint8)
    for start, part in parts(images):
        out[start : start + len(part)] = function(part)
    return out


def _extremes(images: Any) -> tuple[int, int]:
    found = [(part.min(), part.max()) for _, part in parts(images)]
    return int(min(low for low, _ in found)), int(max(high for _, high in found))


def _has_only(images: Any, high: int) -> bool:
    return all(((part == 0) | (part == high)).all() for _, part in parts(images))


def is_torch_dataset(source: Any) -> bool:
    """Whether `source` is a torch dataset, an object with the same interface, or a `DataLoader`.

    Objects with only `__getitem__` and `__len__` count: NumPy would read them past their end.
    """
    if isinstance(source, TorchDataset | DataLoader):
        return True
    indexable = hasattr(source, "__getitem__") and hasattr(source, "__len__")
    return indexable and not (hasattr(source, "__array__") or hasattr(source, "__iter__"))


def images_and_labels(source: Any, name: str) -> tuple[np.ndarray, Any]:
    """Read all images `[N, H, W, C]` of a map-style dataset, in order, and their labels.

    Items are images or tuples `(image, label)`. An image is an array `[H, W]`, `[H, W, C]` or
    `[C, H, W]`, or a PIL image. For a `DataLoader`, the underlying dataset is read item by item,
    ignoring its sampler, batches and collate function. The labels are a table of factors: the
    factor `label` for one integer per image, an array `[N, K]` for several, and None if they are
    missing or not integers.
    """
    dataset = source.dataset if isinstance(source, DataLoader) else source
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise DataError(
            f"{name} must be a map-style dataset with a length, got {type(dataset).__name__}; "
            "you can also pass an array of its images",
            subject=name,
            value=type(dataset).__name__,
        )
    parts: list[np.ndarray] = []
    labels: list[Any] = []
    count = len(dataset)
    for start in track(range(0, count, BATCH), "reading images", -(-count // BATCH)):
        items = [_split(dataset[index]) for index in range(start, min(start + BATCH, count))]
        parts.append(_stacked([image for image, _ in items], start, name))
        labels += [label for _, label in items]
    if not parts:
        raise DataError(f"{name} must have at least one item, got 0", subject=name, value=0)
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        raise _shape_error(name, shapes)
    return np.concatenate(parts), _factors(labels)


def _split(item: Any) -> tuple[Any, Any]:
    """Split an item into its image and its label, if any."""
    if isinstance(item, tuple | list):
        return (item[0], item[1] if len(item) > 1 else None) if item else (None, None)
    return item, None


def _stacked(images: Sequence[Any], start: int, name: str) -> np.ndarray:
    """Stack images, converting floats to bytes to save memory."""
    arrays = []
    for index, image in enumerate(images, start):
        try:
            array = on_host(image) if not isinstance(image, Mapping | str) else None
        except (RuntimeError, TypeError, ValueError):
            array = None
        if array is None or array.dtype.kind not in "biuf" or array.ndim not in (2, 3):
            raise DataError(
                f"items of {name} must be images or tuples (image, label), "
                f"got {type(image).__name__} for item {index}",
                subject=name,
                value=index,
            )
        arrays.append(array)
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise _shape_error(name, shapes)
    stacked = np.stack(arrays)
    return as_images(stacked, name)[0] if stacked.dtype.kind == "f" else stacked


def _shape_error(name: str, shapes: set[tuple[int, ...]]) -> DataError:
    one, other, *_ = sorted(shapes)
    return DataError(
        f"images of {name} must have the same shape, got {list(one)} and {list(other)}; resize "
        "them in the dataset, or load a folder instead",
        subject=name,
        value=(one, other),
    )


def _factors(labels: Sequence[Any]) -> Any:
    """Convert labels to a table of factors if they are integers or rows of integers, else None."""
    try:
        table = np.stack([on_host(label) for label in labels])
    except (RuntimeError, TypeError, ValueError):
        return None
    if table.dtype.kind not in "iu" or table.ndim > 2 or 0 in table.shape:
        return None
    return {LABEL: table} if table.ndim == 1 else table
