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
from typing import IO, TYPE_CHECKING

import numpy as np

from unweave.errors import DataError
from unweave.io.arrays import free_memory
from unweave.io.paths import check_file
from unweave.text import shown

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
MOST_OBJECTS, DEEPEST = 1_000, 20
"""Arrays and groups of an HDF5 file, and groups within groups; finding thousands takes seconds."""
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
        if zipped:
            return _member(path, pick)
        _check_plain_array(path)
        return np.lib.format.open_memmap(path, mode="c")
    except UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"cannot read numbers from {path} ({reason}); save a plain array of numbers, "
            "not of Python objects, with numpy.save or numpy.savez"
        ) from error


def _check_plain_array(path: Path) -> None:
    """Refuse a `.npy` file that is shorter than it claims, or most of which is holes."""
    status = path.stat()
    with path.open("rb") as file:
        claimed = _claimed_bytes(file)
        there = status.st_size - file.tell()
    if claimed > there:
        raise ValueError(f"it claims {claimed:,} bytes, but {there:,} are there")
    # In blocks of 512 bytes whatever the file system's own are; compressing ones store fewer.
    if claimed > SMALL and claimed > MOST_PACKED * 512 * status.st_blocks:
        raise DataError(_hollow(path, claimed, 512 * status.st_blocks))


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
    # NumPy counts elements in 64 bits, also where none of them takes any room.
    if min(shape, default=0) < 0 or prod(shape) * max(1, dtype.itemsize) >= 2**63:
        raise ValueError(f"its shape is {shown(shape)}")
    return prod(shape) * dtype.itemsize


def _read_images(path: Path) -> np.ndarray:
    return read_numpy(path, lambda names: _array_name(path, names, names))


def _read_hdf5(path: Path) -> np.ndarray:
    import h5py

    check_file(path, "array")
    try:
        with h5py.File(path, "r") as file:
            found = _hdf5_arrays(file)
            images = [name for name, ndim in found.items() if ndim in (3, 4)]
            chosen = file[_array_name(path, list(found), images)]
            _check_hdf5(path, chosen)
            return chosen[...]
    except UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"cannot read {path} ({reason}); give a whole HDF5 file") from error


def _hdf5_arrays(file: "h5py.File") -> dict[str, int]:
    """How many axes each array of a file has, by its name; links are not followed."""
    import h5py

    found: dict[str, int] = {}
    left: list[tuple[str, h5py.Group]] = [("", file)]
    seen: set[int] = set()
    objects = 0
    while left:
        place, group = left.pop()
        objects += len(group)
        if objects > MOST_OBJECTS or place.count("/") > DEEPEST:
            raise DataError(
                f"{file.filename} holds more than {MOST_OBJECTS:,} arrays and groups, or groups "
                f"more than {DEEPEST} levels deep; save the images in a file of their own"
            )
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:  # under another name
                continue
            seen.add(address)
            if isinstance(item, h5py.Dataset):
                found[f"{place}{name}"] = item.ndim
            elif isinstance(item, h5py.Group):
                left.append((f"{place}{name}/", item))
    return dict(sorted(found.items()))


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
        raise DataError(_hollow(path, claimed, stored))


def _hollow(path: Path, claimed: int, stored: int) -> str:
    return (
        f"{path} claims an array of {claimed / 1e9:,.3g} GB, but stores {stored:,} bytes of it; "
        "save it again, whole"
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
