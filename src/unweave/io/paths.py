"""Paths that a user names: whether they can be read or written, found out before the work."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from unweave.errors import DataError

__all__ = [
    "check_ending",
    "check_file",
    "check_folder",
    "check_free",
    "check_out",
    "check_room",
    "path_errors",
    "refuse_inner_links",
]

INNER_NAME = "x" * 64
"""As long as the longest name that is written into a folder."""


@contextmanager
def path_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn what the system says of a path into a DataError that names it.

    Args:
        path: As the user wrote it.
        doing: What failed, for the message: `"read"`, `"write"`.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        # A null byte in a name is a ValueError, a circle of links or no home a RuntimeError.
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot {doing} {_short(path)}: {reason}; choose another path") from error


def check_file(path: Path, what: str = "file") -> None:
    """Refuse what is not a regular file, such as a pipe or a device, which may never end.

    Args:
        path: As the user wrote it.
        what: What the file holds, for the message.
    """
    with path_errors(path, "read"):
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError) as error:
            raise DataError(f"there is no file {path}; check the path of the {what}") from error
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder, not a file; give the {what} itself")
    if not stat.S_ISREG(mode):
        raise DataError(f"{path} is a pipe or a device, not a file; copy it into a file first")


def check_out(path: Path | None, endings: Sequence[str], overwrite: bool) -> None:
    """Refuse a file that could not be written, before the work rather than after it.

    Args:
        path: The file to write, in a folder that exists; None is always fine.
        endings: How its name may end, in lower case, with the dot.
        overwrite: Whether a file that is already there may be replaced.
    """
    if path is None:
        return
    check_ending(path, endings)
    with path_errors(path, "write"):
        if not path.parent.is_dir():
            raise DataError(f"there is no folder {_short(path.parent)}; make it first")
    check_free([path], overwrite)


def check_free(files: Sequence[Path], overwrite: bool) -> None:
    """Refuse files of one folder that could not be written; the folder need not exist yet."""
    for path in files:
        _check_name(path)
        with path_errors(path, "write"):
            if path.is_dir():
                raise DataError(f"{path} is a folder; choose another name for the file")
            if path.exists() and not overwrite:
                raise DataError(
                    f"{path} is already there; choose another name, or add --overwrite"
                )
            # Files are written under such a name first, which may be too long: `whole_file`.
            with suppress(FileNotFoundError, NotADirectoryError):
                path.with_name(f".{path.name}.{'x' * 8}{path.suffix}").lstat()
    check_folder(files[0].parent)


def check_folder(folder: Path) -> None:
    """Refuse a folder that could not be made, or not be written into."""
    _check_name(folder)
    with path_errors(folder, "write into"):
        with suppress(FileNotFoundError, NotADirectoryError):
            (folder / INNER_NAME).lstat()
        place = folder
        while not place.exists():
            if place.is_symlink():
                raise DataError(f"{place} is a link that leads nowhere; choose another folder")
            place = place.parent
        if not place.is_dir():
            raise DataError(f"{place} is a file, not a folder; choose another folder")
        with tempfile.TemporaryFile(dir=place):
            pass


def refuse_inner_links(folder: Path, names: Sequence[str]) -> None:
    """Refuse folders within a study or a fit that are symbolic links, or hold some.

    Whoever made the folder could otherwise have files behind the link changed or removed. The
    folder itself may be a link, since the user names it.

    Args:
        folder: Of the study or of the fit.
        names: Folders in it that may be written to; they need not be there.
    """
    for place in (folder / name for name in names):
        with path_errors(place, "read"):
            links = [place] if place.is_symlink() else []
            if place.is_dir() and not links:
                with os.scandir(place) as entries:
                    links = [Path(entry.path) for entry in entries if entry.is_symlink()][:1]
        if links:
            raise DataError(
                f"{links[0]} is a symbolic link, which is not followed within {folder}; replace "
                "it by what it leads to"
            )


def check_room(folder: Path, need: float, what: str) -> None:
    """Refuse work whose results would not fit on the disk.

    Args:
        folder: Where they go; it need not exist yet.
        need: How many bytes they take, about.
        what: What takes them, for the message: `"4 models"`.
    """
    place = folder.absolute()
    while not place.is_dir():
        place = place.parent
    free = shutil.disk_usage(place).free
    if need > free:
        raise DataError(
            f"{what} need about {need / 1e9:.2g} GB in {folder}, but {free / 1e9:.2g} GB are "
            "free; make room or choose another folder"
        )


def check_ending(path: Path, endings: Sequence[str]) -> None:
    """Refuse a file whose name does not end as files of its kind do."""
    if path.suffix.lower() not in endings:
        listed = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
        raise DataError(f"the file to write ends in {listed}, but got {_short(path.name)!r}")


def _check_name(path: Path) -> None:
    """Refuse bytes that are not UTF-8: some of the libraries that write files take no others."""
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8; choose another name to write to") from error


def _short(path: str | Path) -> str:
    """A path that fits into a sentence."""
    text = str(path)
    return text if len(text) <= 200 else f"{text[:100]}… ({len(text):,} characters)"
