"""Cars3D: 183 car models seen from 24 azimuths and 4 elevations.

The published archive has one MATLAB file per car, with images of 128 × 128 pixels, which are
resized to 64 × 64. Cars are numbered in the alphabetical order of their file names.

Notes:
    disentanglement_lib numbers the cars in the order in which the file system lists the files,
    which differs between machines. Elevation and azimuth agree.

References:
    Reed et al., Deep Visual Analogy-Making, NIPS 2015.
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from unweave.data.archives import members, open_tar, read_file, read_member, reading
from unweave.data.cached_files import whole_array
from unweave.data.dataset import Dataset
from unweave.data.grid import Factor, Grid
from unweave.data.pictures import shrink
from unweave.data.published import Metadata, given_files, prepare
from unweave.data.stores import Bytes
from unweave.errors import DataError
from unweave.progress import track

__all__ = ["grid", "load"]

SIDE = 64
ELEVATIONS, AZIMUTHS = 4, 24
MESH = (128, 128, 3, AZIMUTHS, ELEVATIONS)


def load(path: str | Path | None = None) -> Dataset:
    """Load Cars3D: the published archive, or an archive or folder of `.mat` files at `path`."""
    cars = [] if path is None else sorted(Path(path).glob("*.mat"))
    images, metadata = prepare("cars3d", cars or given_files("cars3d", path), convert)
    return Dataset("cars3d", Bytes(images), grid(metadata["objects"].tolist()))


def grid(objects: Sequence[str]) -> Grid:
    """Return the grid for the given cars, with the car changing fastest."""
    return Grid(
        (
            Factor("elevation", np.arange(ELEVATIONS)),
            Factor("azimuth", 360 / AZIMUTHS * np.arange(AZIMUTHS)),
            Factor("object", objects, categorical=True),
        )
    )


def convert(sources: Sequence[Path], target: Path) -> Metadata:
    """Write all images `[4 * 24 * cars, 64, 64, 3]` and return the names of the cars."""
    cars = dict(_from_files(sources) if sources[0].suffix == ".mat" else _from_tar(sources[0]))
    if not cars:
        raise DataError(
            f"{sources[0]} has no files data/cars/*.mat; download the published file again",
            subject=sources[0],
            value=0,
        )
    names = sorted(cars)
    with whole_array(target, (ELEVATIONS * AZIMUTHS * len(names), SIDE, SIDE, 3)) as out:
        by_factor = out.reshape(ELEVATIONS, AZIMUTHS, len(names), SIDE, SIDE, 3)
        for number, name in enumerate(names):
            by_factor[:, :, number] = cars[name]
    return {"objects": np.array(names)}


def _from_files(paths: Sequence[Path]) -> Iterator[tuple[str, np.ndarray]]:
    for path in track(paths, "reading Cars3D"):
        with reading(path):
            content = read_file(path)
        yield path.stem, _read_car(content, path)


def _from_tar(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    with reading(path), open_tar(path) as tar:
        cars = [member for member in members(tar) if _is_car(PurePosixPath(member.name))]
        for member in track(cars, "reading Cars3D"):
            content = read_member(tar, member)
            yield PurePosixPath(member.name).stem, _read_car(content, path / member.name)


def _is_car(name: PurePosixPath) -> bool:
    return name.suffix == ".mat" and name.parent.name == "cars" and not name.name.startswith(".")


def _read_car(content: bytes, path: Path) -> np.ndarray:
    """Read the images of one car, resized to `[4, 24, 64, 64, 3]`."""
    from scipy.io import loadmat, whosmat

    with reading(path):
        try:
            # Check the claimed size before reading anything into memory.
            claims = {name: (shape, kind) for name, shape, kind in whosmat(io.BytesIO(content))}
            shape, kind = claims["im"]
            valid = shape == MESH and kind == "uint8"
            mesh = loadmat(io.BytesIO(content), variable_names=["im"])["im"] if valid else None
        except Exception as error:  # scipy raises anything for damaged files
            raise ValueError(str(error)) from error
    if mesh is None or mesh.shape != MESH:
        raise DataError(
            f"`im` in {path} must be uint8 {list(MESH)}, "
            f"got {kind} {list(shape)}; download the published file",
            subject=path,
            value=(kind, shape),
        )
    views = mesh.transpose(4, 3, 0, 1, 2).reshape(-1, *MESH[:3])
    small = [shrink(Image.fromarray(view), SIDE) for view in views]
    return np.stack(small).reshape(ELEVATIONS, AZIMUTHS, SIDE, SIDE, 3)
