"""Shapes3D: 480,000 rendered rooms, each with one object in the middle.

Published as one HDF5 file, with the images in the order of their factors and the orientation
changing fastest. The grid is read off the labels, which are checked to be in exactly that order.

References:
    Burgess and Kim, 3D Shapes Dataset, 2018 (github.com/google-deepmind/3d-shapes).
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unweave.data.archives import Facts, fetching, find_files, prepare, reading
from unweave.data.cached_files import whole_array
from unweave.data.dataset import Dataset
from unweave.data.fetch import RemoteFile
from unweave.data.grid import Factor, Grid
from unweave.data.stores import Bytes
from unweave.errors import DataError
from unweave.progress import track

__all__ = ["FACTORS", "FILES", "load"]

FACTORS = ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
SHAPES = ("cube", "cylinder", "sphere", "capsule")
IMAGE = (64, 64, 3)
IMAGES_AT_ONCE, MOST_AT_ONCE = 4096, 65_536
MOST_IMAGES = 480_000

FILES = (
    RemoteFile(
        name="3dshapes.h5",
        size=267_573_662,
        md5="099a2078d58cec4daad0702c55d06868",
        urls=("https://storage.googleapis.com/3d-shapes/3dshapes.h5",),
    ),
)


def load(path: str | Path | None = None) -> Dataset:
    """Shapes3D, from the published file, or from the `.h5` file at `path`."""
    given = None if path is None else find_files(path, [FILES[0].name])
    images, facts = prepare("shapes3d", fetching(FILES), given, convert)
    return Dataset("shapes3d", Bytes(images), grid([facts[name] for name in FACTORS]))


def grid(values: Sequence[np.ndarray]) -> Grid:
    """The grid of the six factors with these values."""
    axes = []
    for name, numbers in zip(FACTORS, values, strict=True):
        is_shape = name == "shape"
        named = is_shape and len(numbers) == len(SHAPES)
        axes.append(Factor(name, SHAPES if named else numbers, categorical=is_shape))
    return Grid(tuple(axes))


def convert(sources: Sequence[Path], place: Path) -> Facts:
    """Copy the images; the facts are each factor's values."""
    import h5py

    (source,) = sources
    with reading(source), h5py.File(source) as file:
        images, labels = _array(file, "images"), _array(file, "labels")
        if images.dtype != np.uint8 or images.shape[1:] != IMAGE:
            raise DataError(
                f"{source} should hold `images` as bytes [N, 64, 64, 3], "
                f"but they are {images.dtype} {list(images.shape)}; get the published file"
            )
        values = ordered_values(source, labels, len(images))
        step = _step(images)
        with whole_array(place, images.shape) as out:
            for start in track(range(0, len(images), step), "reading Shapes3D"):
                out[start : start + step] = images[start : start + step]
    return dict(zip(FACTORS, values, strict=True))


def ordered_values(source: Path, labels: Any, count: int) -> list[np.ndarray]:
    """The values of each factor, if `labels` `[N, 6]` runs through their grid in order."""
    if count > MOST_IMAGES:
        raise DataError(
            f"{source} should hold at most {MOST_IMAGES:,} images, but claims {count:,}; "
            "get the published file"
        )
    if labels.shape != (count, len(FACTORS)) or labels.dtype.kind not in "iuf":
        raise DataError(
            f"{source} should hold `labels` for {count:,} images and 6 factors, "
            f"but they are {labels.dtype} {list(labels.shape)}; get the published file"
        )
    labels = labels[:]
    values = [np.unique(column) for column in labels.T]
    combinations = math.prod(len(v) for v in values)
    expected: np.ndarray = np.empty(0)
    if combinations == count:  # else they may be too many to write down
        expected = np.stack(np.meshgrid(*values, indexing="ij"), -1).reshape(-1, len(FACTORS))
    if not np.array_equal(expected, labels):
        raise DataError(
            f"the labels of {source} should run through all {combinations:,} combinations, "
            "orientation fastest, but do not; get the published file"
        )
    return values


def _step(images: Any) -> int:
    """How many images to read at once: whole chunks of the file, none of them unpacked twice."""
    chunk = images.chunks[0] if images.chunks else 1
    return int(min(max(1, IMAGES_AT_ONCE // chunk) * chunk, MOST_AT_ONCE))


def _array(file: Any, name: str) -> Any:
    """An array of an HDF5 file that lies in this very file, not yet read."""
    import h5py

    array = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(array, h5py.Dataset) or array.is_virtual or array.external:
        raise ValueError(f"its {name} are not an array in it")
    return array
