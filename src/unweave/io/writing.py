"""The folder where prepared data lies, and how files get there: whole or not at all."""

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

    A reader, another process or a crash never sees a half-written file. What a killed process
    leaves in the folder is removed by the next one.
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
    """A temporary folder that becomes `path` when the block ends well, and is gone otherwise.

    Where `path` exists by then, written by somebody else or before, it is left as it is.
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
    """A folder beside `path` that is removed when the block ends.

    That of a killed process is removed by the next one.
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
    """A regular file opened for reading, through no symbolic link; nothing else would end."""
    refuse_link(path)
    # Opening a pipe would wait for somebody to write into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise DataError(f"{path} is not a regular file; remove it")
    return file


def refuse_link(path: Path) -> None:
    """Refuse a symbolic link: in a shared folder, somebody else may have placed it there."""
    if path.is_symlink():
        raise DataError(
            f"{path} is a symbolic link, which is not followed in the cache; remove it, and give "
            "the file that it leads to by its own path"
        )


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


def _check_name(path: Path) -> None:
    """Raise now what renaming a temporary file to `path` would raise after all the work."""
    with suppress(FileNotFoundError):
        path.lstat()  # too long a name


def allowed(mode: int) -> int:
    """What the user's mask leaves of a file's mode."""
    return mode & ~_MASK


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_MASK = _mask()
"""Read once, since it can only be read by changing it."""
