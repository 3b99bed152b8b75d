"""Shapes3D: 480,000 rendered rooms, each with one object in the middle.

The published HDF5 file has the images in the order of their factors, with the orientation changing
fastest. The grid is read from the labels, which are checked to be in exactly this order.

References:
    Burgess and Kim, 3D Shapes Dataset, 2018 (github.com/google-deepmind/3d-shapes).
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unweave.data.archives import reading
from unweave.data.cached_files import whole_array
from unweave.data.dataset import Dataset
from unweave.data.grid import Factor, Grid
from unweave.data.published import Metadata, given_files, prepare
from unweave.data.stores import Bytes
from unweave.errors import DataError
from unweave.progress import track

__all__ = ["FACTORS", "load"]

FACTORS = ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
SHAPES = ("cube", "cylinder", "sphere", "capsule")
IMAGE = (64, 64, 3)
BATCH, MAX_BATCH = 4096, 65_536
MAX_IMAGES = 480_000


def load(path: str | Path | None = None) -> Dataset:
    """Load Shapes3D from the published file, or from the `.h5` file at `path`."""
    images, metadata = prepare("shapes3d", given_files("shapes3d", path), convert)
    return Dataset("shapes3d", Bytes(images), grid([metadata[name] for name in FACTORS]))


def grid(values: Sequence[np.ndarray]) -> Grid:
    """Return the grid of the six factors with the given values."""
    axes = []
    for name, numbers in zip(FACTORS, values, strict=True):
        is_shape = name == "shape"
        named = is_shape and len(numbers) == len(SHAPES)
        axes.append(Factor(name, SHAPES if named else numbers, categorical=is_shape))
    return Grid(tuple(axes))


def convert(sources: Sequence[Path], target: Path) -> Metadata:
    """Copy the images and return the values of each factor."""
    import h5py

    (source,) = sources
    with reading(source), h5py.File(source) as file:
        images, labels = _array(file, "images"), _array(file, "labels")
        if images.dtype != np.uint8 or images.shape[1:] != IMAGE:
            raise DataError(
                f"`images` in {source} must be uint8 [N, 64, 64, 3], "
                f"got {images.dtype} {list(images.shape)}; download the published file",
                subject=source,
                value=(images.dtype, images.shape),
            )
        values = ordered_values(source, labels, len(images))
        step = _step(images)
        with whole_array(target, images.shape) as out:
            for start in track(range(0, len(images), step), "reading Shapes3D"):
                out[start : start + step] = images[start : start + step]
    return dict(zip(FACTORS, values, strict=True))


def ordered_values(source: Path, labels: Any, count: int) -> list[np.ndarray]:
    """Return the values of each factor after checking that `labels` `[N, 6]` are in grid order."""
    if count > MAX_IMAGES:
        raise DataError(
            f"{source} must have at most {MAX_IMAGES:,} images, got {count:,}; "
            "download the published file",
            subject=source,
            value=count,
        )
    if labels.shape != (count, len(FACTORS)) or labels.dtype.kind not in "iuf":
        raise DataError(
            f"`labels` in {source} must be numbers [{count}, {len(FACTORS)}], "
            f"got {labels.dtype} {list(labels.shape)}; download the published file",
            subject=source,
            value=(labels.dtype, labels.shape),
        )
    labels = labels[:]
    values = [np.unique(column) for column in labels.T]
    combinations = math.prod(len(v) for v in values)
    expected: np.ndarray = np.empty(0)
    if combinations == count:  # otherwise the grid may be too large for memory
        expected = np.stack(np.meshgrid(*values, indexing="ij"), -1).reshape(-1, len(FACTORS))
    if not np.array_equal(expected, labels):
        raise DataError(
            f"the labels in {source} must list all {combinations:,} combinations in order, "
            "with orientation changing fastest; download the published file",
            subject=source,
            value=combinations,
        )
    return values


def _step(images: Any) -> int:
    """Return the number of images to read at once: whole chunks, so that each is read once."""
    chunk = images.chunks[0] if images.chunks else 1
    return int(min(max(1, BATCH // chunk) * chunk, MAX_BATCH))


def _array(file: Any, name: str) -> Any:
    """Return an array stored in this HDF5 file, not in a linked one, without reading it."""
    import h5py

    array = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(array, h5py.Dataset) or array.is_virtual or array.external:
        raise ValueError(f"it does not contain the array {name}")
    return array
