"""Export of a data set to a single file that other libraries can read.

.npz   dSprites as published (`imgs`, `latents_classes`, `latents_values`, `metadata`);
       any other data set as `images`, `factors`, `factor_names`, `factor_sizes`
.h5    dSprites as published (`imgs`, `latents/classes`, `latents/values`);
       any other data set as Shapes3D is published (`images`, `labels`)
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from unweave.data.dataset import Dataset
from unweave.data.grid import Grid
from unweave.data.stores import Bits
from unweave.io.arguments import check_seed
from unweave.io.paths import check_free, check_suffix
from unweave.io.writing import whole_file
from unweave.progress import track

__all__ = ["check_export", "export"]

CHUNK = 4096


def export(data: Dataset, path: str | Path, seed: int = 0, overwrite: bool = False) -> Path:
    """Write all images and factors of a data set to one file.

    Args:
        data: Data set of images.
        path: Output file, ending in `.npz` or `.h5`.
        seed: Random seed of images that are random given their factors (default 0).
        overwrite: Whether to replace an existing file (default False).

    Returns:
        Path of the file.
    """
    path = Path(path)
    check_export(path, overwrite)
    check_seed(seed)
    with whole_file(path) as temporary:
        WRITERS[path.suffix.lower()](data, temporary, seed)
    return path


def check_export(path: Path, overwrite: bool) -> None:
    """Reject an output path that `export` could not write."""
    check_suffix(path, tuple(WRITERS))
    check_free([path], overwrite)


def _write_npz(data: Dataset, path: Path, seed: int) -> None:
    sprites = _is_dsprites(data)
    shape = (len(data), *(data.shape[:2] if sprites else data.shape))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("imgs.npy" if sprites else "images.npy", "w", force_zip64=True) as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for images in _images(data, seed):
                file.write((images // 255 if sprites else images).tobytes())
        for name, array in (_dsprites_members if sprites else _members)(data).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array))


def _write_h5(data: Dataset, path: Path, seed: int) -> None:
    sprites = _is_dsprites(data)
    shape = data.shape[:2] if sprites else data.shape
    with h5py.File(path, "w") as file:
        images = file.create_dataset(
            "imgs" if sprites else "images",
            (len(data), *shape),
            "u1",
            chunks=(min(64, len(data)), *shape),
            compression="gzip",
            compression_opts=1,
        )
        for k, chunk in enumerate(_images(data, seed)):
            rows = slice(k * CHUNK, k * CHUNK + len(chunk))
            images[rows] = chunk[..., 0] // 255 if sprites else chunk
        if sprites:
            members = _dsprites_members(data)
            file["latents/classes"] = members["latents_classes"]
            file["latents/values"] = members["latents_values"]
        elif data.grid or data.labels:
            file["labels"] = _values(data)


WRITERS = {".npz": _write_npz, ".h5": _write_h5, ".hdf5": _write_h5}


def _images(data: Dataset, seed: int) -> Iterator[np.ndarray]:
    for start in track(range(0, len(data), CHUNK), f"writing {data.name}"):
        yield data.images(np.arange(start, min(start + CHUNK, len(data))), seed)


def _is_dsprites(data: Dataset) -> bool:
    names = ("shape", "scale", "orientation", "posX", "posY")
    named = data.grid is not None and data.grid.names == names
    # The published layout has one bit per pixel, so modified images do not fit.
    return named and isinstance(data.store, Bits) and not data.random


def _members(data: Dataset) -> dict[str, Any]:
    known = data.grid or data.labels
    if known is None:
        return {}
    return {
        "factors": data.factors(np.arange(len(data))),
        "factor_names": np.array(known.names),
        "factor_sizes": np.array([len(axis) for axis in known.axes]),
    }


def _values(data: Dataset) -> np.ndarray:
    """Return the value of every factor `[N, K]`, or its class if the values are text."""
    known = data.grid or data.labels
    assert known is not None
    classes = data.factors(np.arange(len(data)))
    columns = [
        classes[:, k]
        if isinstance(axis.values[0], str)
        else np.asarray(axis.values)[classes[:, k]]
        for k, axis in enumerate(known.axes)
    ]
    return np.stack(columns, axis=1).astype(np.float64)


def _dsprites_members(data: Dataset) -> dict[str, Any]:
    """Return the arrays of the published file other than images, with the constant colour."""
    grid = data.grid
    assert isinstance(grid, Grid)
    classes = data.factors(np.arange(len(data)))
    values = _values(data)
    values[:, 0] += 1  # the published file numbers shapes from one
    sizes = np.array([1, *grid.sizes])
    names = ("color", *grid.names)
    possible = [np.array([1.0])] + [np.unique(values[:, k]) for k in range(len(grid.axes))]
    metadata = {
        "title": "dSprites dataset",
        "description": "Rendered by unweave in the layout of the published file.",
        "latents_names": names,
        "latents_sizes": sizes,
        "latents_possible_values": dict(zip(names, possible, strict=True)),
    }
    blank = np.zeros((len(data), 1), dtype=np.int64)
    return {
        "latents_classes": np.hstack([blank, classes]),
        "latents_values": np.hstack([blank + 1.0, values]),
        "metadata": np.array(metadata, dtype=object),
    }
