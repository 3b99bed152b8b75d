"""Files of arrays, NumPy's and HDF5, and which of their arrays are the images."""

import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unweave.errors import DataError

__all__ = ["READERS"]

ARRAY_NAMES = ("images", "imgs", "data", "x")


def _read_numpy(path: Path) -> np.ndarray:
    try:
        # Copy-on-write: nothing reaches the file, and torch may share the memory.
        found = np.load(path, mmap_mode="c", allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            return found[_array_name(path, found.files, found.files)]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"cannot read numbers from {path} ({error}); save a plain array of numbers, "
            "not of Python objects, with numpy.save or numpy.savez"
        ) from error


def _read_hdf5(path: Path) -> np.ndarray:
    import h5py

    found: dict[str, int] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item.ndim

    try:
        with h5py.File(path, "r") as file:
            file.visititems(note)
            images = [name for name, ndim in found.items() if ndim in (3, 4)]
            return file[_array_name(path, list(found), images)][...]
    except OSError as error:
        raise DataError(f"cannot read {path} ({error}); give a whole HDF5 file") from error


def _array_name(path: Path, names: Sequence[str], candidates: Sequence[str]) -> str:
    for name in ARRAY_NAMES:
        if name in names:
            return name
    if len(candidates) == 1:
        return candidates[0]
    raise DataError(
        f"{path} has the arrays {', '.join(names) or '(none)'}, and it is not clear which are the "
        f"images; call them {ARRAY_NAMES[0]!r}"
    )


READERS: Mapping[str, Callable[[Path], np.ndarray]] = {
    ".npy": _read_numpy,
    ".npz": _read_numpy,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
}
"""By how a file's name ends, the images in it as they are there."""
