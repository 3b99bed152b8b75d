"""The folder where prepared data lies, and how files get there: whole or not at all."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from unweave.errors import DataError

__all__ = [
    "allowed",
    "cache_folder",
    "open_array",
    "whole_array",
    "whole_file",
    "whole_folder",
    "write_errors",
]


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
"""What a disk says that cannot take a file."""


def cache_folder() -> Path:
    """`$UNWEAVE_CACHE`, or `unweave` in the user's cache folder."""
    chosen = os.environ.get("UNWEAVE_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unweave"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path` when the block ends well, and is gone otherwise.

    A reader, another process or a crash never sees a half-written file.
    """
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix
        )
        os.close(handle)
    temporary = Path(name)
    try:
        with _full_disks(path):
            yield temporary
        with write_errors(path):
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.chmod(allowed(0o666))
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that becomes `path` when the block ends well, and is gone otherwise.

    Where `path` exists by then, written by somebody else or before, it is left as it is.
    """
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        with _full_disks(path):
            yield temporary
        with write_errors(path):
            for file in temporary.iterdir():
                file.chmod(allowed(0o666))
            for file in [*temporary.iterdir(), temporary]:
                descriptor = os.open(file, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)
            temporary.chmod(allowed(0o777))
            if not path.exists():
                temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def whole_array(path: Path, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """A uint8 array on disk to fill in, which appears at `path` (`.npy`) once it is complete."""
    with whole_file(path) as temporary:
        with write_errors(path):
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
            # Claim the space now: on a full disk this is an error, a page fault later a crash.
            with temporary.open("rb+") as file:
                os.posix_fallocate(file.fileno(), 0, temporary.stat().st_size)
        yield array
        array.flush()


def open_array(path: Path, shape: tuple[int, ...] | None = None) -> np.ndarray | None:
    """The `.npy` file at `path`, memory-mapped; None where it is missing or cut short."""
    try:
        # Copy-on-write: nothing reaches the file, and torch may share the memory.
        array = np.lib.format.open_memmap(path, mode="c")
    except (OSError, ValueError):
        return None
    return array if shape is None or array.shape == shape else None


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Make whatever goes wrong in writing a file a DataError that names it."""
    try:
        yield
    except OSError as error:
        cached = cache_folder().absolute() in path.absolute().parents
        how = " with UNWEAVE_CACHE" if cached else ""
        raise DataError(
            f"cannot write {path}: {error.strerror or error}; "
            f"free some space or choose another folder{how}"
        ) from error


@contextmanager
def _full_disks(path: Path) -> Iterator[None]:
    """The same for what whoever fills the file meets of a disk; not for other troubles of his."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        with write_errors(path):
            raise


def allowed(mode: int) -> int:
    """What the user's mask leaves of a file's mode."""
    return mode & ~_MASK


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_MASK = _mask()
"""Read once, since it can only be read by changing it."""
