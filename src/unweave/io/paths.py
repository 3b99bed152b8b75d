"""Checks that paths given by the user can be read or written, before any work starts."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from unweave.errors import DataError

__all__ = [
    "check_disk_space",
    "check_file",
    "check_folder",
    "check_free",
    "check_out",
    "check_suffix",
    "path_errors",
    "refuse_inner_links",
]

FILE, FOLDER, LINK, DEVICE = "file", "folder", "link", "device"
"""Kinds of files, used as `value` of errors."""
INNER_NAME = "x" * 64
"""Name as long as the longest file name that is written into a folder."""


@contextmanager
def path_errors(path: Path, doing: str) -> Iterator[None]:
    """Convert system errors about a path to a DataError that names it.

    Args:
        path: Path given by the user.
        doing: Action that failed, for the message: `"read"`, `"write"`.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        # A null byte raises a ValueError; a loop of links or a missing home, a RuntimeError.
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"cannot {doing} {_short(path)}: {reason}; choose another path",
            subject=path,
            value=getattr(error, "errno", None),
        ) from error


def check_file(path: Path, what: str = "file") -> None:
    """Raise an error unless a path is a regular file; reading a pipe could block forever.

    Args:
        path: Path given by the user.
        what: Content of the file, for the message.
    """
    with path_errors(path, "read"):
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError) as error:
            raise DataError(
                f"{path} not found; check the path of the {what}", subject=path
            ) from error
    if stat.S_ISDIR(mode):
        raise DataError(
            f"{path} is a folder, not a file; pass the {what} itself", subject=path, value=FOLDER
        )
    if not stat.S_ISREG(mode):
        raise DataError(
            f"{path} is a pipe or device, not a regular file; copy it to a file first",
            subject=path,
            value=DEVICE,
        )


def check_out(path: Path | None, endings: Sequence[str], overwrite: bool) -> None:
    """Raise an error if an output file cannot be written.

    Args:
        path: Output file in an existing folder, or None.
        endings: Supported file extensions, in lower case with the dot.
        overwrite: Whether an existing file may be replaced.
    """
    if path is None:
        return
    check_suffix(path, endings)
    with path_errors(path, "write"):
        if not path.parent.is_dir():
            raise DataError(
                f"folder {_short(path.parent)} not found; create it first", subject=path.parent
            )
    check_free([path], overwrite)


def check_free(files: Sequence[Path], overwrite: bool) -> None:
    """Raise an error if files of one folder, which need not exist, cannot be written."""
    for path in files:
        _check_name(path)
        with path_errors(path, "write"):
            if path.is_dir():
                raise DataError(
                    f"{path} is a folder; choose another file name",
                    subject=path,
                    value=FOLDER,
                )
            if path.exists() and not overwrite:
                raise DataError(
                    f"{path} already exists; use --overwrite to replace it",
                    subject=path,
                    value=FILE,
                )
            # Files are first written under a temporary name, which may be too long (`whole_file`).
            with suppress(FileNotFoundError, NotADirectoryError):
                path.with_name(f".{path.name}.{'x' * 8}{path.suffix}").lstat()
    check_folder(files[0].parent)


def check_folder(folder: Path) -> None:
    """Raise an error if a folder cannot be created or written to."""
    _check_name(folder)
    with path_errors(folder, "write to"):
        with suppress(FileNotFoundError, NotADirectoryError):
            (folder / INNER_NAME).lstat()
        place = folder
        while not place.exists():
            if place.is_symlink():
                raise DataError(
                    f"{place} is a broken link; choose another folder",
                    subject=place,
                    value=LINK,
                )
            place = place.parent
        if not place.is_dir():
            raise DataError(
                f"{place} is a file, not a folder; choose another folder",
                subject=place,
                value=FILE,
            )
        with tempfile.TemporaryFile(dir=place):
            pass


def refuse_inner_links(folder: Path, names: Sequence[str]) -> None:
    """Raise an error if folders inside a study or fit are symbolic links or contain some.

    The folder may be untrusted, and links could cause files elsewhere to be changed or removed.
    The folder itself may be a link, because the user chose it.

    Args:
        folder: Folder of the study or fit.
        names: Folders in it that may be written to; they need not exist.
    """
    for place in (folder / name for name in names):
        with path_errors(place, "read"):
            links = [place] if place.is_symlink() else []
            if place.is_dir() and not links:
                with os.scandir(place) as entries:
                    links = [Path(entry.path) for entry in entries if entry.is_symlink()][:1]
        if links:
            raise DataError(
                f"{links[0]} is a symbolic link, and links inside {folder} are not followed; "
                "replace it with its target",
                subject=links[0],
                value=LINK,
            )


def check_disk_space(folder: Path, need: float, what: str) -> None:
    """Raise an error if the disk has too little free space.

    Args:
        folder: Output folder, which need not exist.
        need: Approximate number of bytes required.
        what: What requires the space, for the message: `"4 models"`.
    """
    place = folder.absolute()
    while not place.is_dir():
        place = place.parent
    free = shutil.disk_usage(place).free
    if need > free:
        raise DataError(
            f"{what} require about {need / 1e9:.2g} GB in {folder}, but only {free / 1e9:.2g} GB "
            "are free; free some space or choose another folder",
            subject=folder,
            value=free,
        )


def check_suffix(path: Path, endings: Sequence[str]) -> None:
    """Raise an error if a file does not have one of the supported extensions."""
    if path.suffix.lower() not in endings:
        listed = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
        raise DataError(
            f"the output file must end in {listed}, got {_short(path.name)!r}",
            subject=path,
            value=path.suffix,
        )


def _check_name(path: Path) -> None:
    """Raise an error if a name is not UTF-8, which some libraries require for writing."""
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"the output path must be valid UTF-8, got {path}; choose another name",
            subject=path,
            value=os.fsencode(path),
        ) from error


def _short(path: str | Path) -> str:
    """Return a path, shortened if it is too long for a message."""
    text = str(path)
    return text if len(text) <= 200 else f"{text[:100]}… ({len(text):,} characters)"
