"""Falcor3D and Isaac3D: a living room and a robot in a kitchen, rendered by NVIDIA.

The zips of the versions with 128 × 128 pixels are read: `images/000000.png` and so on in a folder
with an array of labels in [0, 1], one row per image. Images are placed by their labels.

Names of factors are those of the published `dataset_demo.py`, with `_` for `-`. The README lists
those of Isaac3D in another order, which contradicts its own formula for the index; the published
traversals agree with the demo.

References:
    Nie et al., Semi-Supervised StyleGAN for Disentanglement Learning, arXiv:2003.03461
    (github.com/NVlabs/High-res-disentanglement-datasets, CC BY 4.0).
"""

import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from unweave.data.archives import MAX_MEMBER_BYTES, batches, read_zipped_array, reading
from unweave.data.cached_files import whole_array
from unweave.data.dataset import Dataset
from unweave.data.grid import Factor, Grid
from unweave.data.pictures import open_image, shrink
from unweave.data.published import Metadata, given_files, prepare
from unweave.data.stores import Bytes
from unweave.errors import DataError, UnknownNameError
from unweave.io.arguments import check_count
from unweave.progress import track

__all__ = ["GRIDS", "load"]

SIDE = 128
BATCH = 512
LABELS = {"falcor3d": "train-rec.labels", "isaac3d": "labels.npy"}


def _grid(categorical: Sequence[str] = (), **sizes: int) -> Grid:
    return Grid(
        tuple(
            Factor(name, np.linspace(0, 1, size), categorical=name in categorical)
            for name, size in sizes.items()
        )
    )


GRIDS = {
    "falcor3d": _grid(
        lighting_intensity=5,
        lighting_x_dir=6,
        lighting_y_dir=6,
        lighting_z_dir=6,
        camera_x_pos=6,
        camera_y_pos=6,
        camera_z_pos=6,
    ),
    "isaac3d": _grid(
        ("object_shape", "object_color", "wall_color"),
        object_shape=3,
        robot_x_move=8,
        robot_y_move=5,
        camera_height=4,
        object_scale=4,
        lighting_intensity=4,
        lighting_y_dir=6,
        object_color=4,
        wall_color=4,
    ),
}


def load(variant: str, path: str | Path | None = None, size: int = SIDE) -> Dataset:
    """Load Falcor3D or Isaac3D from its published zip, or from the zip at `path`.

    Args:
        variant: `"falcor3d"` or `"isaac3d"`.
        path: Path of the zip (default: download the published file).
        size: Side of the images, 16 to 128 pixels; smaller ones are resized (default: 128).
    """
    if variant not in GRIDS:
        raise UnknownNameError("data set of NVIDIA", variant, GRIDS)
    check_count("size", size, 16, SIDE)
    grid = GRIDS[variant]
    work = partial(convert, labels=LABELS[variant], grid=grid, size=size)
    images, _ = prepare(variant, given_files(variant, path), work, f"images-{size}")
    return Dataset(variant, Bytes(images), grid)


def convert(sources: Sequence[Path], target: Path, labels: str, grid: Grid, size: int) -> Metadata:
    """Write the images of a zip in the order of the grid, given the name of its labels."""
    (source,) = sources
    with reading(source), zipfile.ZipFile(source) as archive:
        members = {member.filename: member for member in archive.infolist()}
        tables = [name for name in members if PurePosixPath(name).name == labels]
        if len(tables) != 1:
            raise DataError(
                f"{source} must have one file {labels}, got {len(tables)}; download the "
                "published file",
                subject=source,
                value=len(tables),
            )
        table = members[tables[0]]
        if table.file_size > MAX_MEMBER_BYTES:
            raise ValueError(f"its labels claim {table.file_size:,} bytes")
        positions = _positions(source, read_zipped_array(archive, table), grid)
        folder = PurePosixPath(tables[0]).parent / "images"
        decode = partial(_decode, source=source, size=size)
        with (
            whole_array(target, (len(grid), size, size, 3)) as out,
            ThreadPoolExecutor() as pool,
        ):
            for batch in track(batches(range(len(grid)), BATCH), f"reading {source.name}"):
                names = [str(folder / f"{number:06}.png") for number in batch]
                contents = [_read(archive, members[name]) for name in names]
                images = pool.map(decode, names, contents)
                for number, image in zip(batch, images, strict=True):
                    out[positions[number]] = image
    return {}


def _positions(source: Path, labels: np.ndarray, grid: Grid) -> np.ndarray:
    """Return the index in the grid `[N]` of each image after checking its labels `[N, K]`."""
    expected = (len(grid), len(grid.sizes))
    if labels.shape != expected or labels.dtype.kind not in "iuf":
        raise DataError(
            f"the labels in {source} must be numbers {list(expected)}, "
            f"got {labels.dtype} {list(labels.shape)}; download the published file",
            subject=source,
            value=(labels.dtype, labels.shape),
        )
    columns = [np.unique(column, return_inverse=True) for column in labels.T]
    sizes = tuple(len(values) for values, _ in columns)
    if sizes != grid.sizes:
        raise DataError(
            f"the labels in {source} must have {list(grid.sizes)} values of "
            f"{', '.join(grid.names)}, got {list(sizes)}; download the published file",
            subject=source,
            value=sizes,
        )
    positions: np.ndarray = grid.index(np.stack([ranks for _, ranks in columns], -1))
    found = len(np.unique(positions))
    if found != len(grid):
        raise DataError(
            f"the labels in {source} must list each of the {len(grid):,} combinations once, "
            f"got {found:,}; download the published file",
            subject=source,
            value=found,
        )
    return positions


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.file_size > MAX_MEMBER_BYTES:
        raise ValueError(f"its member {member.filename} claims {member.file_size:,} bytes")
    return archive.read(member)


def _decode(name: str, content: bytes, source: Path, size: int) -> np.ndarray:
    with reading(source / name), open_image(content) as image:
        if image.size != (SIDE, SIDE):
            raise ValueError(f"it has {image.width} × {image.height} pixels, not 128 × 128")
        pixels: Image.Image = image.convert("RGB")
        return np.asarray(pixels) if size == SIDE else shrink(pixels, size)
