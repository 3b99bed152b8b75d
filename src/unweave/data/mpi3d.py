"""MPI3D: a robot arm that moves an object in front of a camera, rendered or photographed.

There are four data sets: `mpi3d_toy`, `mpi3d_realistic`, `mpi3d_real`, and `mpi3d_complex` with
everyday objects. Each is an `.npz` file of 5.7 or 12.7 GB with one array of images in the order of
the factors, which is read as a stream. The smaller versions of the first three from the 2019
challenge, with four colours and four shapes, can be loaded with `path`.

References:
    Gondal et al., On the Transfer of Inductive Bias from Simulation to the Real World,
    arXiv:1906.03292.
"""

import math
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from unweave.data.archives import read_exactly, read_npy_header, reading
from unweave.data.cached_files import whole_array
from unweave.data.catalog import DATASETS
from unweave.data.dataset import Dataset
from unweave.data.grid import Factor, Grid
from unweave.data.published import Metadata, given_files, prepare
from unweave.data.stores import Bytes
from unweave.errors import DataError, UnknownNameError
from unweave.progress import track

__all__ = ["GRIDS", "load"]

IMAGE = (64, 64, 3)
BATCH = 4096


def _grid(colors: Sequence[str], shapes: Sequence[str]) -> Grid:
    return Grid(
        (
            Factor("object_color", colors, categorical=True),
            Factor("object_shape", shapes, categorical=True),
            Factor("object_size", ("small", "large")),
            Factor("camera_height", ("top", "center", "bottom")),
            Factor("background_color", ("purple", "sea green", "salmon"), categorical=True),
            Factor("horizontal_axis", np.arange(40)),
            Factor("vertical_axis", np.arange(40)),
        )
    )


SIMPLE_OBJECTS = (
    _grid(
        ("white", "green", "red", "blue", "brown", "olive"),
        ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere"),
    ),
    _grid(("green", "red", "blue", "brown"), ("cone", "cube", "hexagonal", "sphere")),
)
EVERYDAY_OBJECTS = (
    _grid(
        ("yellow", "green", "olive", "red"),
        ("coffee-cup", "tennis-ball", "croissant", "beer-cup"),
    ),
)
GRIDS = {
    "mpi3d_toy": SIMPLE_OBJECTS,
    "mpi3d_realistic": SIMPLE_OBJECTS,
    "mpi3d_real": SIMPLE_OBJECTS,
    "mpi3d_complex": EVERYDAY_OBJECTS,
}
"""Possible grids of each variant."""


def load(variant: str, path: str | Path | None = None) -> Dataset:
    """Load one of the four data sets from its published file, or from the `.npz` at `path`."""
    if variant not in GRIDS:
        raise UnknownNameError("variant of MPI3D", variant, GRIDS)
    grids = GRIDS[variant]
    _check_name(variant, path)
    images, _ = prepare(variant, given_files(variant, path), partial(convert, grids=grids))
    (grid,) = [grid for grid in grids if len(grid) == len(images)]
    return Dataset(variant, Bytes(images), grid)


def _check_name(variant: str, path: str | Path | None) -> None:
    """Refuse the published file of another variant, which nothing in it would tell apart."""
    for other in GRIDS:
        name = DATASETS[other].files[0].name
        if other != variant and path is not None and Path(path).name == name:
            raise DataError(
                f"{path} is the file of {other}, not of {variant}; load {other}, or rename the "
                "file if it is not the published one",
                subject=path,
                value=other,
            )


def convert(sources: Sequence[Path], target: Path, grids: Sequence[Grid]) -> Metadata:
    """Extract the images after checking that their number matches one of `grids`."""
    (source,) = sources
    with (
        reading(source),
        zipfile.ZipFile(source) as archive,
        archive.open("images.npy") as stream,
    ):
        count = math.prod(_read_shape(stream, source)[:-3])
        _check_count(source, count, grids)
        with whole_array(target, (count, *IMAGE)) as out:
            for start in track(range(0, count, BATCH), f"reading {source.name}"):
                rows = out[start : start + BATCH]
                data = read_exactly(stream, rows.nbytes)
                rows[:] = np.frombuffer(data, np.uint8).reshape(rows.shape)
            if stream.read(1):  # reading to the end also makes zipfile verify the checksum
                raise ValueError("it has data after the last image")
    return {}


def _read_shape(stream: IO[bytes], source: Path) -> tuple[int, ...]:
    """Read the shape `[..., 64, 64, 3]` from a `.npy` header."""
    shape, dtype = read_npy_header(stream)
    if dtype != np.uint8 or shape[-3:] != IMAGE:
        raise DataError(
            f"`images` in {source} must be uint8 [N, 64, 64, 3], "
            f"got {dtype} {list(shape)}; download the published file",
            subject=source,
            value=(dtype, shape),
        )
    return shape


def _check_count(source: Path, count: int, grids: Sequence[Grid]) -> None:
    expected = [len(grid) for grid in grids]
    if count not in expected:
        raise DataError(
            f"{source} must have {' or '.join(f'{number:,}' for number in expected)} images, "
            f"got {count:,}; download the published file",
            subject=source,
            value=count,
        )
