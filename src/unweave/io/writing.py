"""The cache folder, and atomic writing of files and folders."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from unweave.errors import DataError
from unweave.io.temporary import remove_leftovers, temporary_name

__all__ = [
    "allowed",
    "cache_folder",
    "open_plain",
    "refuse_link",
    "temporary_folder",
    "whole_file",
    "whole_folder",
    "write_errors",
]


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
"""Error codes of a disk that is full or cannot be written to."""


def cache_folder() -> Path:
    """Return `$UNWEAVE_CACHE`, or `unweave` in the user's cache folder."""
    chosen = os.environ.get("UNWEAVE_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unweave"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `path` on success and removed on failure.

    Readers never see a partially written file, even after a crash. Temporary files of killed
    processes are removed by the next process.
    """
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_name(path)
        remove_leftovers(path.parent)
        temporary = path.with_name(temporary_name(path.name))
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
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
    """Yield a temporary folder that is renamed to `path` on success and removed on failure.

    If `path` already exists by then, it is left unchanged.
    """
    with temporary_folder(path) as temporary:
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


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a folder next to `path` that is removed when the block ends.

    Folders of killed processes are removed by the next process.
    """
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_name(path)
        remove_leftovers(path.parent)
        temporary = path.with_name(temporary_name(path.name))
        temporary.mkdir(mode=0o700)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading; links, pipes and devices are refused."""
    refuse_link(path)
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise DataError(f"{path} is not a regular file; remove it", subject=path)
    return file


def refuse_link(path: Path) -> None:
    """Raise an error for a symbolic link, which another user of the folder may have placed."""
    if path.is_symlink():
        raise DataError(
            f"{path} is a symbolic link, and links in the cache are not followed; remove it and "
            "pass the path of its target instead",
            subject=path,
        )


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Convert errors in writing a file to a DataError that names it."""
    try:
        yield
    except OSError as error:
        cached = cache_folder().absolute() in path.absolute().parents
        hint = " with UNWEAVE_CACHE" if cached else ""
        raise DataError(
            f"cannot write {path}: {error.strerror or error}; "
            f"free some space or choose another folder{hint}",
            subject=path,
            value=error.errno,
        ) from error


@contextmanager
def _full_disks(path: Path) -> Iterator[None]:
    """Convert errors of a full disk as `write_errors` does; pass on all others."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        with write_errors(path):
            raise


def _check_name(path: Path) -> None:
    """Fail now if renaming a temporary file to `path` would fail after all the work."""
    with suppress(FileNotFoundError):
        path.lstat()  # fails if the name is too long


def allowed(mode: int) -> int:
    """Return a file mode restricted by the user's umask."""
    return mode & ~_MASK


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_MASK = _mask()
"""Umask of the process, read once because reading it requires changing it."""
