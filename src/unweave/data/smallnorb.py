"""SmallNORB: 50 toys of five kinds, photographed from 162 directions under six lights.

Published as six files in NYU's binary matrix format: a magic number for the type, the number of
dimensions, at least three sizes, and the data, all little-endian. The images of the first camera
are used, of the training and testing files together. Which of the ten toys of a kind is seen is no
factor: stored image `10 * index + toy` is one of ten variants of the image `index`.

References:
    LeCun, Huang and Bottou, Learning methods for generic object recognition, CVPR 2004.
"""

import math
from collections.abc import Sequence
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from PIL import Image

from unweave.data.archives import (
    Facts,
    batches,
    fetching,
    find_files,
    open_stream,
    prepare,
    read_exactly,
    reading,
    shrink,
)
from unweave.data.cached_files import whole_array
from unweave.data.dataset import Dataset
from unweave.data.fetch import RemoteFile
from unweave.data.grid import Factor, Grid
from unweave.data.stores import Bytes
from unweave.errors import DataError
from unweave.progress import track

__all__ = ["CATEGORIES", "FILES", "load"]

CATEGORIES = ("animal", "human", "plane", "truck", "car")
COLUMNS = ("category", "elevation", "azimuth", "lighting", "instance")
CAMERAS, RAW_SIDE, SIDE = 2, 96, 64
IMAGES_AT_ONCE = 512
MOST_BYTES = 64 << 20
"""Of the numbers that describe the images; published ones have 400 kB."""
TYPES: dict[int, np.dtype] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}

TRAINING = "smallnorb-5x46789x9x18x6x2x96x96-training"
TESTING = "smallnorb-5x01235x9x18x6x2x96x96-testing"


def _published(stem: str, size: int, md5: str) -> RemoteFile:
    name = f"{stem}.mat.gz"
    url = f"https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/{name}"
    return RemoteFile(name=name, size=size, md5=md5, urls=(url,))


FILES = (
    _published(f"{TRAINING}-dat", 131_896_188, "66054832f9accfe74a0f4c36a75bc0a2"),
    _published(f"{TRAINING}-cat", 348, "23c8b86101fbf0904a000b43d3ed2fd9"),
    _published(f"{TRAINING}-info", 71_052, "51dee1210a742582ff607dfd94e332e3"),
    _published(f"{TESTING}-dat", 130_799_817, "e4ad715691ed5a3a5f138751a4ceb071"),
    _published(f"{TESTING}-cat", 347, "5aa791cd7e6016cf957ce9bdb93b8603"),
    _published(f"{TESTING}-info", 10_428, "a9454f3864d7fd4bb3ea7fc3eb84924e"),
)


def load(path: str | Path | None = None) -> Dataset:
    """SmallNORB, from the published files, or from the folder `path` with these, `.gz` or not."""
    given = None if path is None else find_files(path, [file.name for file in FILES])
    images, facts = prepare("smallnorb", fetching(FILES), given, convert)
    grid = Grid(
        (
            Factor("category", [CATEGORIES[c] for c in facts["category"]], categorical=True),
            Factor("elevation", 30 + 5 * facts["elevation"]),
            Factor("azimuth", 10 * facts["azimuth"]),
            Factor("lighting", facts["lighting"], categorical=True),
        )
    )
    return Dataset("smallnorb", Bytes(images), grid, variants=len(facts["instance"]))


def convert(sources: Sequence[Path], place: Path) -> Facts:
    """Write all images in grid order, variants fastest; the facts are the columns' raw values."""
    halves = [sources[:3], sources[3:]]
    columns = [_columns(categories, infos) for _, categories, infos in halves]
    values, positions = _positions(np.concatenate(columns), sources[0].parent)
    with whole_array(place, (len(positions), SIDE, SIDE, 1)) as out:
        start = 0
        for (images, _, _), rows in zip(halves, columns, strict=True):
            _place_images(images, positions[start : start + len(rows)], out)
            start += len(rows)
    return dict(zip(COLUMNS, values, strict=True))


def _columns(categories: Path, infos: Path) -> np.ndarray:
    """Category, elevation, azimuth, lighting and instance of each image of one half, `[N, 5]`."""
    category, info = _read_matrix(categories), _read_matrix(infos)
    if category.ndim != 1 or info.shape != (len(category), 4):
        raise DataError(
            f"{infos} should describe each of the {len(category):,} images of {categories.name} "
            f"by four numbers, but its shape is {list(info.shape)}; get the published files"
        )
    instance, elevation, azimuth, lighting = info.T
    return np.stack([category, elevation, azimuth, lighting, instance], -1)


def _positions(columns: np.ndarray, folder: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """The values of each column, and the place `[N]` of each image in their grid."""
    values = [np.unique(column) for column in columns.T]
    ranks = [np.searchsorted(v, column) for v, column in zip(values, columns.T, strict=True)]
    sizes = tuple(len(v) for v in values)
    count = math.prod(sizes)
    positions = np.ravel_multi_index(ranks, sizes) if count == len(columns) else np.empty(0)
    if not np.array_equal(np.sort(positions), np.arange(len(columns))):
        raise DataError(
            f"the SmallNORB files in {folder} should show every combination of their factors and "
            f"instances once, but {len(columns):,} images stand for {count:,} "
            "combinations; get the published files"
        )
    if not np.isin(values[0], range(len(CATEGORIES))).all():
        raise DataError(f"the categories in {folder} should be 0 … 4; get the published files")
    return values, positions


def _place_images(path: Path, positions: np.ndarray, out: np.ndarray) -> None:
    """Shrink the first camera's images of one file into their places."""
    with reading(path), open_stream(path) as stream:
        dtype, shape = _read_header(stream)
        if dtype != np.uint8 or shape != (len(positions), CAMERAS, RAW_SIDE, RAW_SIDE):
            raise DataError(
                f"{path} should hold {len(positions):,} pairs of 96 × 96 bytes, "
                f"but it is {dtype} {list(shape)}; get the published files"
            )
        for batch in track(batches(positions.tolist(), IMAGES_AT_ONCE), f"reading {path.name}"):
            data = read_exactly(stream, len(batch) * CAMERAS * RAW_SIDE * RAW_SIDE)
            pairs = np.frombuffer(data, np.uint8).reshape(-1, *shape[1:])
            for position, pair in zip(batch, pairs, strict=True):
                out[position] = shrink(Image.fromarray(pair[0]), SIDE)


def _read_matrix(path: Path) -> np.ndarray:
    with reading(path), open_stream(path) as stream:
        dtype, shape = _read_header(stream)
        size = math.prod(shape) * dtype.itemsize
        if size > MOST_BYTES:
            raise ValueError(f"it claims to have {size:,} bytes")
        data = read_exactly(stream, size)
        return np.frombuffer(data, dtype).reshape(shape).astype(np.int64)


def _read_header(stream: BufferedIOBase) -> tuple[np.dtype, tuple[int, ...]]:
    """The type and shape of a matrix; the data follow."""
    magic, dimensions = np.frombuffer(read_exactly(stream, 8), "<u4").tolist()
    if magic not in TYPES or not 1 <= dimensions <= 4:
        raise ValueError(f"it starts with {magic:#x}, which is no matrix of bytes or integers")
    sizes = np.frombuffer(read_exactly(stream, 4 * max(3, dimensions)), "<u4")
    return TYPES[magic], tuple(sizes[:dimensions].tolist())
