"""Conversion of published files to arrays in the cache.

Each data set is converted once into an array of images and a small `.npz` file of metadata, which
are read from the cache afterwards.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from unweave.data.archives import READ_ERRORS, read_npz
from unweave.data.cached_files import checked_file, open_array, open_checked
from unweave.data.catalog import DATASETS
from unweave.data.fetch import fetch
from unweave.errors import DataError
from unweave.io.writing import cache_folder

__all__ = ["MAX_METADATA_BYTES", "Convert", "Metadata", "find_files", "given_files", "prepare"]

Metadata = dict[str, np.ndarray]
"""Metadata arrays of a data set by name, e.g. factor values or file names."""

Convert = Callable[[Sequence[Path], Path], Metadata]
"""Function that writes the images of source files to a path in the cache and returns metadata."""

MAX_METADATA_BYTES = 1 << 30


def prepare(
    name: str,
    given: Sequence[Path] | None,
    convert: Convert,
    stem: str = "images",
    obtain: Callable[[Path], Sequence[Path]] | None = None,
) -> tuple[np.ndarray, Metadata]:
    """Return the memory-mapped images and metadata of a data set, converting it if not cached.

    Args:
        name: Name of the data set and of its cache folder.
        given: Files of the user, cached separately by their fingerprint; None for published files.
        convert: Function that converts the files.
        stem: File name in the cache, different for each kind of conversion.
        obtain: Function that gets the published files (default: download them).
    """
    folder = cache_folder() / name
    target = folder / f"{stem if given is None else f'{stem}-{_fingerprint(given)}'}.npy"
    found = _open(target)
    if found is None:
        if given is None:
            files = DATASETS[name].files
            given = obtain(folder) if obtain else [fetch(file, folder) for file in files]
        metadata = convert(given, target)
        with checked_file(target.with_suffix(".npz")) as temporary:
            np.savez(temporary, **metadata)  # type: ignore[arg-type] # its stub mixes up keywords
        found = _open(target)
        assert found is not None
    return found


def _open(target: Path) -> tuple[np.ndarray, Metadata] | None:
    images, metadata = open_array(target), open_checked(target.with_suffix(".npz"))
    if metadata is None:
        return None
    with metadata:
        try:
            known = read_npz(metadata, MAX_METADATA_BYTES)
        except READ_ERRORS:
            return None
    return None if images is None else (images, known)


def _fingerprint(paths: Sequence[Path]) -> str:
    """Return a short hash of the paths, sizes and modification times of files."""
    digest = hashlib.sha256()
    for path in paths:
        status = path.stat()
        digest.update(f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def given_files(name: str, path: str | Path | None) -> list[Path] | None:
    """Find the published files of a data set at a user's path; return None without a path."""
    return None if path is None else find_files(path, [file.name for file in DATASETS[name].files])


def find_files(path: str | Path, names: Sequence[str]) -> list[Path]:
    """Find the files called `names`, `.gz` or not, in the folder `path`, or the single file."""
    path = Path(path)
    if path.is_file() and len(names) == 1:
        return [path]
    if not path.is_dir():
        wanted = names[0] if len(names) == 1 else f"a folder with {', '.join(names)}"
        raise DataError(f"cannot find {wanted} at {path}; check the path", subject=path)
    found = []
    for name in names:
        choices = [path / name, path / name.removesuffix(".gz")]
        present = [choice for choice in choices if choice.is_file()]
        if not present:
            raise DataError(f"{name} was not found in {path}; copy it there", subject=path / name)
        found.append(present[0])
    return found
