"""SmallNORB: 50 toys of five categories, photographed from 162 directions under six lightings.

The six published files have NYU's binary matrix format: a magic number for the type, the number of
dimensions, at least three sizes, and the data, all little-endian. The first camera's images of the
training and test files are used. The toy within a category is not a factor: stored image
`10 * index + toy` is one of ten variants of the image `index`.

References:
    LeCun, Huang and Bottou, Learning methods for generic object recognition, CVPR 2004.
"""

import math
from collections.abc import Sequence
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from PIL import Image

from unweave.data.archives import batches, open_stream, read_exactly, reading
from unweave.data.cached_files import whole_array
from unweave.data.dataset import Dataset
from unweave.data.grid import Factor, Grid
from unweave.data.pictures import shrink
from unweave.data.published import Metadata, given_files, prepare
from unweave.data.stores import Bytes
from unweave.errors import DataError
from unweave.progress import track

__all__ = ["CATEGORIES", "load"]

CATEGORIES = ("animal", "human", "plane", "truck", "car")
COLUMNS = ("category", "elevation", "azimuth", "lighting", "instance")
CAMERAS, RAW_SIDE, SIDE = 2, 96, 64
BATCH = 512
MAX_BYTES = 64 << 20
"""Largest metadata matrix, in bytes; published ones are 400 kB."""
TYPES: dict[int, np.dtype] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}


def load(path: str | Path | None = None) -> Dataset:
    """Load SmallNORB from the published files, or from a folder with them, `.gz` or not."""
    images, metadata = prepare("smallnorb", given_files("smallnorb", path), convert)
    grid = Grid(
        (
            Factor("category", [CATEGORIES[c] for c in metadata["category"]], categorical=True),
            Factor("elevation", 30 + 5 * metadata["elevation"]),
            Factor("azimuth", 10 * metadata["azimuth"]),
            Factor("lighting", metadata["lighting"], categorical=True),
        )
    )
    return Dataset("smallnorb", Bytes(images), grid, variants=len(metadata["instance"]))


def convert(sources: Sequence[Path], target: Path) -> Metadata:
    """Write all images in grid order, variants fastest, and return the raw column values."""
    halves = [sources[:3], sources[3:]]
    columns = [_columns(categories, infos) for _, categories, infos in halves]
    values, positions = _positions(np.concatenate(columns), sources[0].parent)
    with whole_array(target, (len(positions), SIDE, SIDE, 1)) as out:
        start = 0
        for (images, _, _), rows in zip(halves, columns, strict=True):
            _place_images(images, positions[start : start + len(rows)], out)
            start += len(rows)
    return dict(zip(COLUMNS, values, strict=True))


def _columns(categories: Path, infos: Path) -> np.ndarray:
    """Read category, elevation, azimuth, lighting and instance of one half's images, `[N, 5]`."""
    category, info = _read_matrix(categories), _read_matrix(infos)
    if category.ndim != 1 or info.shape != (len(category), 4):
        raise DataError(
            f"{infos} must have four numbers for each of the {len(category):,} images in "
            f"{categories.name}, got shape {list(info.shape)}; download the published files",
            subject=infos,
            value=info.shape,
        )
    instance, elevation, azimuth, lighting = info.T
    return np.stack([category, elevation, azimuth, lighting, instance], -1)


def _positions(columns: np.ndarray, folder: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the values of each column and the index `[N]` of each image in their grid."""
    values = [np.unique(column) for column in columns.T]
    ranks = [np.searchsorted(v, column) for v, column in zip(values, columns.T, strict=True)]
    sizes = tuple(len(v) for v in values)
    count = math.prod(sizes)
    positions = np.ravel_multi_index(ranks, sizes) if count == len(columns) else np.empty(0)
    if not np.array_equal(np.sort(positions), np.arange(len(columns))):
        raise DataError(
            f"the SmallNORB files in {folder} must have one image per combination of factors and "
            f"instances, got {len(columns):,} images for {count:,} combinations; download the "
            "published files",
            subject=folder,
            value=(len(columns), count),
        )
    if not np.isin(values[0], range(len(CATEGORIES))).all():
        raise DataError(
            f"categories in {folder} must be 0 … 4, got {values[0].tolist()}; download the "
            "published files",
            subject=folder,
            value=values[0].tolist(),
        )
    return values, positions


def _place_images(path: Path, positions: np.ndarray, out: np.ndarray) -> None:
    """Shrink the first camera's images of one file and write them to their positions."""
    with reading(path), open_stream(path) as stream:
        dtype, shape = _read_header(stream)
        if dtype != np.uint8 or shape != (len(positions), CAMERAS, RAW_SIDE, RAW_SIDE):
            raise DataError(
                f"{path} must have {len(positions):,} pairs of 96 × 96 bytes, "
                f"got {dtype} {list(shape)}; download the published files",
                subject=path,
                value=(dtype, shape),
            )
        for batch in track(batches(positions.tolist(), BATCH), f"reading {path.name}"):
            data = read_exactly(stream, len(batch) * CAMERAS * RAW_SIDE * RAW_SIDE)
            pairs = np.frombuffer(data, np.uint8).reshape(-1, *shape[1:])
            for position, pair in zip(batch, pairs, strict=True):
                out[position] = shrink(Image.fromarray(pair[0]), SIDE)


def _read_matrix(path: Path) -> np.ndarray:
    with reading(path), open_stream(path) as stream:
        dtype, shape = _read_header(stream)
        size = math.prod(shape) * dtype.itemsize
        if size > MAX_BYTES:
            raise ValueError(f"its header claims {size:,} bytes")
        data = read_exactly(stream, size)
        return np.frombuffer(data, dtype).reshape(shape).astype(np.int64)


def _read_header(stream: BufferedIOBase) -> tuple[np.dtype, tuple[int, ...]]:
    """Read the type and shape of a matrix, leaving the stream at its data."""
    magic, dimensions = np.frombuffer(read_exactly(stream, 8), "<u4").tolist()
    if magic not in TYPES or not 1 <= dimensions <= 4:
        raise ValueError(f"its magic number {magic:#x} is not that of a byte or integer matrix")
    sizes = np.frombuffer(read_exactly(stream, 4 * max(3, dimensions)), "<u4")
    return TYPES[magic], tuple(sizes[:dimensions].tolist())
