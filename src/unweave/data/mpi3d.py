"""MPI3D: an arm that moves an object before a camera, rendered in two ways or photographed.

Four data sets of one layout: `mpi3d_toy`, `mpi3d_realistic`, `mpi3d_real`, and `mpi3d_complex`
with everyday objects. Each is an `.npz` with one array of images in the order of the factors, 5.7
or 12.7 GB, which is read as a stream. Of the first three there are also the smaller sets of the
2019 challenge, with four colours and four shapes, which load from a path.

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

from unweave.data.archives import (
    Facts,
    fetching,
    find_files,
    prepare,
    read_exactly,
    reading,
)
from unweave.data.cached_files import read_npy_header, whole_array
from unweave.data.dataset import Dataset
from unweave.data.fetch import RemoteFile
from unweave.data.grid import Factor, Grid
from unweave.data.stores import Bytes
from unweave.errors import DataError, UnknownNameError
from unweave.progress import track

__all__ = ["FILES", "GRIDS", "VARIANTS", "load"]

IMAGE = (64, 64, 3)
IMAGES_AT_ONCE = 4096

BUCKET = "https://storage.googleapis.com/mpi3d_disentanglement_dataset/data"
HUB = "https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main"

LIMIT = 16 << 30
"""Bytes; the files of one layout whose size is published have 12.7 GB."""

VARIANTS = {
    "mpi3d_toy": RemoteFile(
        name="mpi3d_toy.npz",
        limit=LIMIT,
        md5="55889cb7c7dfc655d6e0277beee88868",
        urls=(f"{BUCKET}/mpi3d_toy.npz", f"{HUB}/mpi3d_toy.npz"),
    ),
    "mpi3d_realistic": RemoteFile(
        name="mpi3d_realistic.npz",
        size=12_740_198_762,
        md5="59a6225b88b635365f70c91b3e52f70f",
        urls=(f"{BUCKET}/mpi3d_realistic.npz", f"{HUB}/mpi3d_realistic.npz"),
    ),
    "mpi3d_real": RemoteFile(
        name="mpi3d_real.npz",
        limit=LIMIT,
        md5="0f33f609918fb5c97996692f91129802",
        urls=(f"{HUB}/mpi3d_real.npz", f"{BUCKET}/real.npz"),
    ),
    "mpi3d_complex": RemoteFile(
        name="real3d_complicated_shapes_ordered.npz",
        limit=LIMIT,
        urls=(
            "https://drive.usercontent.google.com/download"
            "?id=1Tp8eTdHxgUMtsZv5uAoYAbJR1BOa_OQm&export=download&confirm=t",
        ),
    ),
}
FILES = tuple(VARIANTS.values())


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
"""The grids that the images of each variant may form."""


def load(variant: str, path: str | Path | None = None) -> Dataset:
    """One of the four data sets, from its published file, or from the `.npz` at `path`."""
    if variant not in VARIANTS:
        raise UnknownNameError("variant of MPI3D", variant, VARIANTS)
    file, grids = VARIANTS[variant], GRIDS[variant]
    given = None if path is None else find_files(path, [file.name])
    images, _ = prepare(variant, fetching([file]), given, partial(convert, grids=grids))
    (grid,) = [grid for grid in grids if len(grid) == len(images)]
    return Dataset(variant, Bytes(images), grid)


def convert(sources: Sequence[Path], place: Path, grids: Sequence[Grid]) -> Facts:
    """Copy the images out of the archive, if they are as many as one of `grids` has."""
    (source,) = sources
    with (
        reading(source),
        zipfile.ZipFile(source) as archive,
        archive.open("images.npy") as stream,
    ):
        count = math.prod(_read_shape(stream, source)[:-3])
        _check_count(source, count, grids)
        with whole_array(place, (count, *IMAGE)) as out:
            for start in track(range(0, count, IMAGES_AT_ONCE), f"reading {source.name}"):
                rows = out[start : start + IMAGES_AT_ONCE]
                data = read_exactly(stream, rows.nbytes)
                rows[:] = np.frombuffer(data, np.uint8).reshape(rows.shape)
            if stream.read(1):  # this is also what makes zipfile compare the checksum
                raise ValueError("it goes on after the last image")
    return {}


def _read_shape(stream: IO[bytes], source: Path) -> tuple[int, ...]:
    """The shape `[..., 64, 64, 3]` of the `.npy` array whose data follow in the stream."""
    shape, dtype = read_npy_header(stream)
    if dtype != np.uint8 or shape[-3:] != IMAGE:
        raise DataError(
            f"{source} should hold `images` as bytes [N, 64, 64, 3], "
            f"but they are {dtype} {list(shape)}; get the published file"
        )
    return shape


def _check_count(source: Path, count: int, grids: Sequence[Grid]) -> None:
    wanted = [len(grid) for grid in grids]
    if count not in wanted:
        raise DataError(
            f"{source} should hold {' or '.join(f'{number:,}' for number in wanted)} images, "
            f"but has {count:,}; get the published file"
        )
