"""Cars3D: 183 car models seen from 24 directions at 4 heights.

Published as an archive of one MATLAB file per car, with images of 128 × 128 pixels, which are
halved here. The number of a car is the place of its file name in alphabetical order.

Notes:
    In disentanglement_lib the number of a car follows the order in which the file system lists the
    files, which differs between machines; elevation and azimuth agree.

References:
    Reed et al., Deep Visual Analogy-Making, NIPS 2015.
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from unweave.data.archives import (
    Facts,
    fetching,
    find_files,
    members,
    open_tar,
    prepare,
    read_file,
    read_member,
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

__all__ = ["FILES", "grid", "load"]

SIDE = 64
ELEVATIONS, AZIMUTHS = 4, 24
MESH = (128, 128, 3, AZIMUTHS, ELEVATIONS)

FILES = (
    RemoteFile(
        name="nips2015-analogy-data.tar.gz",
        limit=2 << 30,
        md5="4e866a7919c1beedf53964e6f7a23686",
        urls=("http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",),
    ),
)


def load(path: str | Path | None = None) -> Dataset:
    """Cars3D, as published, or from the archive or the folder of `.mat` files at `path`."""
    given = None if path is None else _given(path)
    images, facts = prepare("cars3d", fetching(FILES), given, convert)
    return Dataset("cars3d", Bytes(images), grid(facts["objects"].tolist()))


def grid(objects: Sequence[str]) -> Grid:
    """The grid with these cars, the car changing fastest."""
    return Grid(
        (
            Factor("elevation", np.arange(ELEVATIONS)),
            Factor("azimuth", 360 / AZIMUTHS * np.arange(AZIMUTHS)),
            Factor("object", objects, categorical=True),
        )
    )


def _given(path: str | Path) -> list[Path]:
    cars = sorted(Path(path).glob("*.mat"))
    return cars or find_files(path, [FILES[0].name])


def convert(sources: Sequence[Path], place: Path) -> Facts:
    """Write all images `[4 * 24 * cars, 64, 64, 3]`; the facts are the cars' names."""
    cars = dict(_from_files(sources) if sources[0].suffix == ".mat" else _from_tar(sources[0]))
    if not cars:
        raise DataError(
            f"{sources[0]} should hold cars as data/cars/*.mat, but has none; get it again"
        )
    names = sorted(cars)
    with whole_array(place, (ELEVATIONS * AZIMUTHS * len(names), SIDE, SIDE, 3)) as out:
        by_factor = out.reshape(ELEVATIONS, AZIMUTHS, len(names), SIDE, SIDE, 3)
        for number, name in enumerate(names):
            by_factor[:, :, number] = cars[name]
    return {"objects": np.array(names)}


def _from_files(paths: Sequence[Path]) -> Iterator[tuple[str, np.ndarray]]:
    for path in track(paths, "reading Cars3D"):
        yield path.stem, _read_car(_content(path), path)


def _content(path: Path) -> bytes:
    with reading(path):
        return read_file(path)


def _from_tar(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    with reading(path), open_tar(path) as tar:
        cars = [member for member in members(tar) if _is_car(PurePosixPath(member.name))]
        for member in track(cars, "reading Cars3D"):
            content = read_member(tar, member)
            yield PurePosixPath(member.name).stem, _read_car(content, path / member.name)


def _is_car(name: PurePosixPath) -> bool:
    return name.suffix == ".mat" and name.parent.name == "cars" and not name.name.startswith(".")


def _read_car(content: bytes, path: Path) -> np.ndarray:
    """One car's images, halved, `[4, 24, 64, 64, 3]`."""
    from scipy.io import loadmat, whosmat

    with reading(path):
        try:
            # What is claimed is looked at before anything is read that would have to fit.
            claims = {name: (shape, kind) for name, shape, kind in whosmat(io.BytesIO(content))}
            shape, kind = claims["im"]
            right = shape == MESH and kind == "uint8"
            mesh = loadmat(io.BytesIO(content), variable_names=["im"])["im"] if right else None
        except Exception as error:  # scipy raises anything for damaged files
            raise ValueError(str(error)) from error
    if mesh is None or mesh.shape != MESH:
        raise DataError(
            f"{path} should hold `im` as bytes {list(MESH)}, "
            f"but it is {kind} {list(shape)}; get the published file"
        )
    views = mesh.transpose(4, 3, 0, 1, 2).reshape(-1, *MESH[:3])
    small = [shrink(Image.fromarray(view), SIDE) for view in views]
    return np.stack(small).reshape(ELEVATIONS, AZIMUTHS, SIDE, SIDE, 3)
