"""Files of arrays, NumPy's and HDF5, and which of their arrays are the images.

Headers are believed only as far as the file can hold what they claim: room is made for an array
once it is known to fit.
"""

import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from unweave.errors import DataError
from unweave.io.arrays import free_memory
from unweave.io.paths import check_file

if TYPE_CHECKING:
    import h5py

__all__ = ["READERS", "read_numpy"]

ARRAY_NAMES = ("images", "imgs", "data", "x")
ZIPPED = b"PK"
MOST_PACKED = 500
"""How many times its size in a file a large array may have: the published dSprites have 116, and
deflate packs nothing but zeros 1,030 to one."""
SMALL = 64 << 20
"""Bytes up to which that does not matter."""
NAMED = 10
UNREADABLE = (
    *(OSError, ValueError, EOFError, OverflowError, SyntaxError, RuntimeError, MemoryError),
    *(KeyError, TypeError, zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
"""What readers of damaged files raise: headers are Python literals, archives may be encrypted."""


def read_numpy(path: Path, pick: Callable[[Sequence[str]], str]) -> np.ndarray:
    """The array of a `.npy` file, memory-mapped, or one of those in a `.npz` file.

    Args:
        path: The file, whatever its name ends in.
        pick: Says which, of the names of all arrays.
    """
    check_file(path, "array")
    try:
        with path.open("rb") as file:
            zipped = file.read(len(ZIPPED)) == ZIPPED
        # Copy-on-write: nothing reaches the file, and torch may share the memory.
        return _member(path, pick) if zipped else np.lib.format.open_memmap(path, mode="c")
    except UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"cannot read numbers from {path} ({reason}); save a plain array of numbers, "
            "not of Python objects, with numpy.save or numpy.savez"
        ) from error


def _member(path: Path, pick: Callable[[Sequence[str]], str]) -> np.ndarray:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        member = archive.getinfo(f"{pick([name.removesuffix('.npy') for name in names])}.npy")
        with archive.open(member) as file:
            claimed = _claimed_bytes(file)
        if claimed > member.file_size:
            raise ValueError(
                f"{member.filename} claims {claimed:,} bytes, but {member.file_size:,} are there"
            )
        _check_size(path, claimed, member.compress_size)
        with archive.open(member) as file:
            return np.lib.format.read_array(file, allow_pickle=False)


def _claimed_bytes(file: IO[bytes]) -> int:
    """What the header of a `.npy` file says that its array takes."""
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError("it has named fields")  # all that version 3 is for
    shape, _, dtype = readers[version](file)
    if min(shape, default=0) < 0:
        raise ValueError(f"its shape is {shape}")
    return prod(shape) * dtype.itemsize


def _read_images(path: Path) -> np.ndarray:
    return read_numpy(path, lambda names: _array_name(path, names, names))


def _read_hdf5(path: Path) -> np.ndarray:
    import h5py

    check_file(path, "array")
    found: dict[str, int] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item.ndim

    try:
        with h5py.File(path, "r") as file:
            file.visititems(note)  # which follows no links, and so stays within the file
            images = [name for name, ndim in found.items() if ndim in (3, 4)]
            chosen = file[_array_name(path, list(found), images)]
            _check_hdf5(path, chosen)
            return chosen[...]
    except UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"cannot read {path} ({reason}); give a whole HDF5 file") from error


def _check_hdf5(path: Path, array: "h5py.Dataset") -> None:
    if array.is_virtual or array.external:
        raise DataError(
            f"{array.name} of {path} takes its numbers from other files; copy them into this one"
        )
    if array.dtype.kind not in "biuf":
        raise DataError(f"{array.name} of {path} holds {array.dtype}; save an array of numbers")
    _check_size(path, array.nbytes, array.id.get_storage_size())


def _check_size(path: Path, claimed: int, stored: int) -> None:
    """Refuse an array that does not fit into memory, or is far larger than what is stored."""
    free = free_memory()
    if claimed > free:
        raise DataError(
            f"{path} claims an array of {claimed / 1e9:,.3g} GB, but {free / 1e9:,.3g} GB of "
            "memory are free; give a smaller one"
        )
    if claimed > SMALL and claimed > MOST_PACKED * stored:
        raise DataError(
            f"{path} claims an array of {claimed / 1e9:,.3g} GB, but stores {stored:,} bytes of "
            "it; save it again, whole"
        )


def _array_name(path: Path, names: Sequence[str], candidates: Sequence[str]) -> str:
    for name in ARRAY_NAMES:
        if name in names:
            return name
    if len(candidates) == 1:
        return candidates[0]
    listed = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
    raise DataError(
        f"{path} has the arrays {listed or '(none)'}, and it is not clear which are the images; "
        f"call them {ARRAY_NAMES[0]!r}"
    )


READERS: Mapping[str, Callable[[Path], np.ndarray]] = {
    ".npy": _read_images,
    ".npz": _read_images,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
}
"""By how a file's name ends, the images in it as they are there."""
