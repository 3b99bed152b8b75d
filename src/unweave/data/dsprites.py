r"""dSprites from formulas: all 737,280 images, bit-identical to the published ones, no download.

The published images are polygons rasterised without anti-aliasing. The outline of a shape,

    square   the corners (±9.6, ±9.6)
    ellipse  u = 9.6 · 1.33 cos t,  v = 9.6 / 1.33 sin t                    at 100 angles t
    heart    u = 9.6 sin³ t,                                                at 150,
             v = -19.2/29 (13 cos t - 5 cos 2t - 2 cos 3t - cos 4t) - 1.44

is scaled by s, rotated by θ, moved to (16 + 32 posX, 16 + 32 posY) and snapped to 1/256 pixel; a
pixel is set if its centre is inside by the even-odd rule.

A row of 64 pixels is stored as one 64-bit word. An edge that crosses the centre line of the row
flips all pixels to the left of the crossing, so a row is the XOR of one mask per crossing, and the
byte-swapped row equals the output of `np.packbits`. Vertices depend on posX only in x and on posY
only in y, so the crossings of a row are computed once for all 32 values of posX.

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

from unweave.data.archives import read_exactly, read_npy_header, reading
from unweave.data.cached_files import open_array, whole_array
from unweave.data.catalog import RENDERED
from unweave.data.dataset import Dataset
from unweave.data.grid import Factor, Grid
from unweave.data.published import Metadata, find_files, prepare
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
BATCH = 8192

# LEFT_OF[n] has the n leftmost pixels set; the leftmost pixel is the highest bit.
LEFT_OF = np.array([((1 << n) - 1) << (SIDE - n) for n in range(SIDE + 1)], dtype=np.uint64)


def load(path: str | Path | None = None) -> Dataset:
    """Load dSprites, rendered into the cache on first use, or the published `.npz` at `path`."""
    bits = packed() if path is None else published(path)
    return Dataset("dsprites", Bits(bits, (SIDE, SIDE, 1)), GRID)


def packed() -> np.ndarray:
    """Return all images as packed bits `[737280, 512]`, memory-mapped from the cache."""
    path = cache_folder() / CACHED
    cached = open_array(path, PACKED_SHAPE, RENDERED[CACHED])
    if cached is not None:
        return cached
    with whole_array(path, PACKED_SHAPE) as out:
        poses = [
            (shape, scale, angle)
            for shape in range(3)
            for scale in range(6)
            for angle in range(40)
        ]
        images = out.reshape(len(poses), -1, out.shape[-1])
        for pose, target in zip(track(poses, "rendering dSprites"), images, strict=True):
            target[:] = render(*pose)
    result = open_array(path, PACKED_SHAPE)
    assert result is not None
    return result


def render(shape: int, scale: int, orientation: int) -> np.ndarray:
    """Render the 1,024 images of one pose as packed bits `[1024, 512]`, posY changing fastest."""
    u, v = outline(shape)
    size, angle = GRID.axes[1].values[scale], GRID.axes[2].values[orientation]
    rotated_u = size * (np.cos(angle) * u + np.sin(angle) * v)
    rotated_v = size * (-np.sin(angle) * u + np.cos(angle) * v)
    centre = 16 + 32 * POSITIONS[:, None]
    x1 = np.rint((centre + rotated_u) * SNAP)
    y1 = np.rint((centre + rotated_v) * SNAP)
    x2, y2 = np.roll(x1, -1, axis=1), np.roll(y1, -1, axis=1)

    centres = (np.arange(SIDE) + 0.5) * SNAP
    crosses = (y1[:, None, :] >= centres[:, None]) != (y2[:, None, :] >= centres[:, None])
    pos_y, row, edge = crosses.nonzero()
    along = (centres[row] - y1[pos_y, edge]) / (y2 - y1)[pos_y, edge]
    crossing = x1[:, edge] + along * (x2 - x1)[:, edge]
    flips = LEFT_OF[np.ceil(crossing / SNAP - 0.5).clip(0, SIDE).astype(np.intp)]

    # Crossings are sorted by (posY, row): each run of equal ones is one row of pixels.
    line = pos_y * SIDE + row
    starts = np.flatnonzero(np.diff(line, prepend=-1))
    rows = np.zeros((32, 32 * SIDE), dtype=np.uint64)
    rows[:, line[starts]] = np.bitwise_xor.reduceat(flips, starts, axis=1)
    return rows.byteswap().view(np.uint8).reshape(32 * 32, SIDE * ROW_BYTES)


def outline(shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices of a shape in its own coordinates, in pixels, v pointing down."""
    if shape == 0:
        return 9.6 * np.array([-1, 1, 1, -1]), 9.6 * np.array([-1, -1, 1, 1])
    if shape == 1:
        t = 2 * np.pi * np.arange(100) / 100
        return 9.6 * 1.33 * np.cos(t), 9.6 / 1.33 * np.sin(t)
    t = 2 * np.pi * np.arange(150) / 150
    curve = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return 9.6 * np.sin(t) ** 3, -19.2 / 29 * curve - 1.44


def published(path: str | Path) -> np.ndarray:
    """Return all images as packed bits from the published file, which is converted once."""
    return prepare("dsprites", find_files(path, [PUBLISHED]), convert, stem="published")[0]


def convert(sources: Sequence[Path], target: Path) -> Metadata:
    """Pack the images of the published file after checking that their order is that of `GRID`."""
    (source,) = sources
    with reading(source), zipfile.ZipFile(source) as archive:
        with archive.open("latents_classes.npy") as stream:
            classes = _read_classes(stream)
        if not np.array_equal(classes[:, 1:], GRID.factors(np.arange(len(GRID)))):
            raise DataError(
                f"{source} is not in the published order; download {PUBLISHED}", subject=source
            )
        with archive.open("imgs.npy") as stream:
            shape, dtype = read_npy_header(stream)
            if shape != (len(GRID), SIDE, SIDE) or dtype != np.uint8:
                raise DataError(
                    f"images in {source} must be uint8 {[len(GRID), SIDE, SIDE]}, "
                    f"got {dtype} {list(shape)}; download {PUBLISHED}",
                    subject=source,
                    value=(dtype, shape),
                )
            with whole_array(target, PACKED_SHAPE) as out:
                for start in track(range(0, len(GRID), BATCH), f"reading {source.name}"):
                    images = read_exactly(stream, BATCH * SIDE * SIDE)
                    out[start : start + BATCH] = np.packbits(
                        np.frombuffer(images, np.uint8)
                    ).reshape(BATCH, -1)
    return {}


def _read_classes(stream: IO[bytes]) -> np.ndarray:
    """Read the classes of all factors, with the constant colour first, `[737280, 6]`."""
    shape, dtype = read_npy_header(stream)
    if shape != (len(GRID), 1 + len(GRID.axes)) or dtype.kind not in "iu":
        raise ValueError(f"unexpected latents_classes: {dtype} {list(shape)}")
    data = read_exactly(stream, math.prod(shape) * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(shape)
