"""Readers for images in NumPy and HDF5 files.

Sizes in headers are checked against the file and the free memory before an array is allocated.
"""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unweave.data.archives import claimed_bytes, read_npy_header, read_zipped_array, reading
from unweave.errors import DataError
from unweave.io.arrays import free_memory
from unweave.io.paths import check_file

if TYPE_CHECKING:
    import h5py

__all__ = ["READERS", "array_name", "check_stored", "read_numpy"]

ARRAY_NAMES = ("images", "imgs", "data", "x")
ZIPPED = b"PK"
MAX_COMPRESSION = 500
"""Largest compression ratio of a large array: published dSprites has 116, and deflate reaches
1,030 on zeros."""
SMALL = 64 << 20
"""Size in bytes up to which the compression ratio is not checked."""
MAX_OBJECTS, MAX_DEPTH = 1_000, 20
"""Limits on the arrays and groups in an HDF5 file and on nesting; thousands take seconds."""
MAX_LISTED = 10
ADVICE = "save a numeric array, without Python objects, using numpy.save or numpy.savez"


def read_numpy(path: Path, pick: Callable[[Sequence[str]], str]) -> np.ndarray:
    """Return the memory-mapped array of a `.npy` file, or the `.npz` member chosen by `pick`."""
    check_file(path, "array")
    with reading(path, ADVICE):
        with path.open("rb") as file:
            zipped = file.read(len(ZIPPED)) == ZIPPED
        if zipped:
            return _read_member(path, pick)
        _check_plain_array(path)
        # Copy-on-write: the file is never changed, and torch may share the memory.
        return np.lib.format.open_memmap(path, mode="c")


def _check_plain_array(path: Path) -> None:
    """Reject a `.npy` file that is shorter than its header claims, or mostly sparse."""
    status = path.stat()
    with path.open("rb") as file:
        shape, dtype = read_npy_header(file, allow_fortran=True)
        claimed, actual = prod(shape) * dtype.itemsize, status.st_size - file.tell()
    if claimed > actual:
        raise ValueError(f"its header claims {claimed:,} bytes, but it has {actual:,}")
    # st_blocks counts 512-byte units on every file system; compressing ones report fewer.
    check_stored(path, claimed, 512 * status.st_blocks)


def _read_member(path: Path, pick: Callable[[Sequence[str]], str]) -> np.ndarray:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        member = archive.getinfo(f"{pick([name.removesuffix('.npy') for name in names])}.npy")
        _check_size(path, claimed_bytes(archive, member), member.compress_size)
        return read_zipped_array(archive, member)


def _read_images(path: Path) -> np.ndarray:
    return read_numpy(path, lambda names: array_name(path, names, names))


def _read_hdf5(path: Path) -> np.ndarray:
    import h5py

    check_file(path, "array")
    with reading(path, "check that it is a complete HDF5 file"), h5py.File(path, "r") as file:
        found = _hdf5_arrays(file)
        images = [name for name, ndim in found.items() if ndim in (3, 4)]
        chosen = file[array_name(path, list(found), images)]
        _check_hdf5(path, chosen)
        return chosen[...]


def _hdf5_arrays(file: "h5py.File") -> dict[str, int]:
    """Map the name of each array in a file to its number of axes, without following links."""
    import h5py

    found: dict[str, int] = {}
    pending: list[tuple[str, h5py.Group]] = [("", file)]
    seen: set[int] = set()
    objects = 0
    while pending:
        prefix, group = pending.pop()
        objects += len(group)
        if objects > MAX_OBJECTS or prefix.count("/") > MAX_DEPTH:
            raise DataError(
                f"{file.filename} has more than {MAX_OBJECTS:,} arrays and groups, or groups "
                f"nested more than {MAX_DEPTH} levels deep; save the images in a separate file",
                subject=Path(file.filename),
                value=objects,
            )
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:  # listed under another name
                continue
            seen.add(address)
            if isinstance(item, h5py.Dataset):
                found[f"{prefix}{name}"] = item.ndim
            elif isinstance(item, h5py.Group):
                pending.append((f"{prefix}{name}/", item))
    return dict(sorted(found.items()))


def _check_hdf5(path: Path, array: "h5py.Dataset") -> None:
    if array.is_virtual or array.external:
        raise DataError(
            f"{array.name} in {path} stores its data in other files; copy the data into this file",
            subject=path,
            value=array.name,
        )
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"{array.name} in {path} must be a numeric array, got {array.dtype}",
            subject=path,
            value=array.dtype,
        )
    _check_size(path, array.nbytes, array.id.get_storage_size())


def _check_size(path: Path, claimed: int, stored: int) -> None:
    """Reject an array that does not fit into memory or claims far more data than is stored."""
    free = free_memory()
    if claimed > free:
        raise DataError(
            f"the array in {path} takes {claimed / 1e9:,.3g} GB, but only {free / 1e9:,.3g} GB "
            "of memory is free; use a smaller array",
            subject=path,
            value=claimed,
        )
    check_stored(path, claimed, stored)


def check_stored(path: Path, claimed: int, stored: int) -> None:
    """Reject an array that claims far more data than is stored."""
    if claimed > SMALL and claimed > MAX_COMPRESSION * stored:
        raise DataError(
            f"{path} claims an array of {claimed / 1e9:,.3g} GB but stores only {stored:,} bytes; "
            "save the complete array again",
            subject=path,
            value=stored,
        )


def array_name(path: Path, names: Sequence[str], candidates: Sequence[str]) -> str:
    """Return the name of the array of images: a usual one, or the only candidate."""
    for name in ARRAY_NAMES:
        if name in names:
            return name
    if len(candidates) == 1:
        return candidates[0]
    listed = ", ".join(names[:MAX_LISTED]) + (", …" if len(names) > MAX_LISTED else "")
    if names and not candidates:
        raise DataError(
            f"{path} has no array of images, which have 3 or 4 axes (found: {listed}); use "
            "uw.Unweaver for rows of numbers",
            subject=path,
            value=list(names),
        )
    raise DataError(
        f"cannot tell which array in {path} holds the images (found: {listed or 'none'}); "
        f"name it {ARRAY_NAMES[0]!r}",
        subject=path,
        value=list(names),
    )


READERS: Mapping[str, Callable[[Path], np.ndarray]] = {
    ".npy": _read_images,
    ".npz": _read_images,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
}
"""Functions that read the images of a file, by file name suffix."""
