r"""dSprites by formula: all 737,280 images, bit for bit, without a download.

The published images are polygons rasterised with hard edges. An outline in the shape's own frame,

    square   the corners (±9.6, ±9.6)
    ellipse  u = 9.6 · 1.33 cos t,  v = 9.6 / 1.33 sin t                    at 100 angles t
    heart    u = 9.6 sin³ t,                                                at 150,
             v = -19.2/29 (13 cos t - 5 cos 2t - 2 cos 3t - cos 4t) - 1.44

is scaled by s, turned by θ, put at (16 + 32 posX, 16 + 32 posY) and snapped to 1/256 pixel; a
pixel is set where its centre is inside by the even-odd rule.

A row of 64 pixels is one 64-bit word here. An edge that crosses the row's centre line flips all
pixels to the left of the crossing, so a row is the exclusive or of one mask per crossing, and a
byte-swapped row is what `np.packbits` would give. Vertices depend on posX only in x and on posY
only in y, so the crossings of a row are found once for all 32 columns.

References:
    Matthey et al., dSprites: Disentanglement testing Sprites dataset, 2017
    (github.com/deepmind/dsprites-dataset).
"""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from unweave.data.archives import (
    Facts,
    find_files,
    prepare,
    read_exactly,
    reading,
)
from unweave.data.cached_files import open_array, read_npy_header, whole_array
from unweave.data.catalog import RENDERED
from unweave.data.dataset import Dataset
from unweave.data.grid import Factor, Grid
from unweave.data.stores import Bits
from unweave.errors import DataError
from unweave.io.writing import cache_folder
from unweave.progress import track

__all__ = ["GRID", "load", "render"]

SIDE = 64
ROW_BYTES = SIDE // 8
SNAP = 256
POSITIONS = np.arange(32) / 31

GRID = Grid(
    (
        Factor("shape", ("square", "ellipse", "heart"), categorical=True),
        Factor("scale", (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)),
        Factor("orientation", 2 * np.pi * np.arange(40) / 39),
        Factor("posX", POSITIONS),
        Factor("posY", POSITIONS),
    )
)

PACKED_SHAPE = (len(GRID), SIDE * ROW_BYTES)
PUBLISHED = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
CACHED = "dsprites/bits.npy"
AT_ONCE = 8192

# LEFT_OF[n] has the n leftmost pixels set; the leftmost pixel is the highest bit.
LEFT_OF = np.array([((1 << n) - 1) << (SIDE - n) for n in range(SIDE + 1)], dtype=np.uint64)


def load(path: str | Path | None = None) -> Dataset:
    """dSprites, rendered into the cache on first use, or from the published `.npz` at `path`."""
    bits = packed() if path is None else published(path)
    return Dataset("dsprites", Bits(bits, (SIDE, SIDE, 1)), GRID)


def packed() -> np.ndarray:
    """All images as packed bits `[737280, 512]`, memory-mapped from the cache."""
    path = cache_folder() / CACHED
    cached = open_array(path, PACKED_SHAPE, RENDERED[CACHED])
    if cached is not None:
        return cached
    with whole_array(path, PACKED_SHAPE) as out:
        poses = [
            (shape, scale, turn) for shape in range(3) for scale in range(6) for turn in range(40)
        ]
        images = out.reshape(len(poses), -1, out.shape[-1])
        for pose, place in zip(track(poses, "rendering dSprites"), images, strict=True):
            place[:] = render(*pose)
    result = open_array(path, PACKED_SHAPE)
    assert result is not None
    return result


def render(shape: int, scale: int, orientation: int) -> np.ndarray:
    """The 1,024 images of one pose, posX slow and posY fast, as packed bits `[1024, 512]`."""
    u, v = outline(shape)
    size, angle = GRID.axes[1].values[scale], GRID.axes[2].values[orientation]
    turned_u = size * (np.cos(angle) * u + np.sin(angle) * v)
    turned_v = size * (-np.sin(angle) * u + np.cos(angle) * v)
    place = 16 + 32 * POSITIONS[:, None]
    x1 = np.rint((place + turned_u) * SNAP)
    y1 = np.rint((place + turned_v) * SNAP)
    x2, y2 = np.roll(x1, -1, axis=1), np.roll(y1, -1, axis=1)

    centres = (np.arange(SIDE) + 0.5) * SNAP
    crosses = (y1[:, None, :] >= centres[:, None]) != (y2[:, None, :] >= centres[:, None])
    pos_y, row, edge = crosses.nonzero()
    along = (centres[row] - y1[pos_y, edge]) / (y2 - y1)[pos_y, edge]
    crossing = x1[:, edge] + along * (x2 - x1)[:, edge]
    flips = LEFT_OF[np.ceil(crossing / SNAP - 0.5).clip(0, SIDE).astype(np.intp)]

    # Crossings come sorted by (posY, row): each run of equal ones is one row of pixels.
    line = pos_y * SIDE + row
    starts = np.flatnonzero(np.diff(line, prepend=-1))
    rows = np.zeros((32, 32 * SIDE), dtype=np.uint64)
    rows[:, line[starts]] = np.bitwise_xor.reduceat(flips, starts, axis=1)
    return rows.byteswap().view(np.uint8).reshape(32 * 32, SIDE * ROW_BYTES)


def outline(shape: int) -> tuple[np.ndarray, np.ndarray]:
    """The vertices of a shape in its own frame, in pixels, v downwards."""
    if shape == 0:
        return 9.6 * np.array([-1, 1, 1, -1]), 9.6 * np.array([-1, -1, 1, 1])
    if shape == 1:
        t = 2 * np.pi * np.arange(100) / 100
        return 9.6 * 1.33 * np.cos(t), 9.6 / 1.33 * np.sin(t)
    t = 2 * np.pi * np.arange(150) / 150
    curve = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return 9.6 * np.sin(t) ** 3, -19.2 / 29 * curve - 1.44


def published(path: str | Path) -> np.ndarray:
    """All images as packed bits, from the file that the authors publish, converted once."""
    given = find_files(path, [PUBLISHED])
    return prepare("dsprites", lambda _: [], given, convert, stem="published")[0]


def convert(sources: Sequence[Path], place: Path) -> Facts:
    """Pack the images of the published file, if they are in the order of `GRID`."""
    (source,) = sources
    with reading(source), zipfile.ZipFile(source) as archive:
        with archive.open("latents_classes.npy") as stream:
            classes = _read_classes(stream)
        if not np.array_equal(classes[:, 1:], GRID.factors(np.arange(len(GRID)))):
            raise DataError(f"{source} is not dSprites in its published order; get {PUBLISHED}")
        with archive.open("imgs.npy") as stream:
            shape, dtype = read_npy_header(stream)
            if shape != (len(GRID), SIDE, SIDE) or dtype != np.uint8:
                raise DataError(f"{source} should hold bytes {len(GRID)} × 64 × 64, not {shape}")
            with whole_array(place, PACKED_SHAPE) as out:
                for start in track(range(0, len(GRID), AT_ONCE), f"reading {source.name}"):
                    images = read_exactly(stream, AT_ONCE * SIDE * SIDE)
                    out[start : start + AT_ONCE] = np.packbits(
                        np.frombuffer(images, np.uint8)
                    ).reshape(AT_ONCE, -1)
    return {}


def _read_classes(stream: IO[bytes]) -> np.ndarray:
    """The classes of all factors, the constant colour first, `[737280, 6]`."""
    shape, dtype = read_npy_header(stream)
    if shape != (len(GRID), 1 + len(GRID.axes)) or dtype.kind not in "iu":
        raise ValueError(f"its latents_classes are {dtype} {list(shape)}")
    data = read_exactly(stream, math.prod(shape) * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(shape)
