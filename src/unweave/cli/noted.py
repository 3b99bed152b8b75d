"""Where the images of a fit or a run are, noted in its folder: later commands need not be told."""

import json
import os
import stat
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from unweave.data import catalog
from unweave.data.custom import from_path
from unweave.data.origin_steps import FILES, check_options
from unweave.errors import DataError, UnweaveError
from unweave.io.plain_data import read_json, read_text
from unweave.io.schema import Required, Schema, of_kind
from unweave.io.writing import whole_file
from unweave.text import shown, spelled

__all__ = ["SOURCE", "is_named", "noted_source", "write_source"]

SOURCE = "source.json"
LOADING = ("size", "channels", *FILES)
"""Options that say how images are loaded."""
MOST_FILES = 500_000
SEARCH_SECONDS = 10
"""Bounds on folders that are searched because a note names them."""


def is_named(source: str) -> bool:
    """Whether a source is the name of a data set, and no path."""
    return catalog.is_named(spelled(source))


def write_source(folder: Path, source: str, loading: Mapping[str, Any]) -> None:
    """Note where the images are, seen from the folder, and how they were loaded.

    Args:
        folder: Of the fit, or of a run.
        source: A path of the user's.
        loading: Options of `uw.data.load`; those that name files are `Path`s.
    """
    options = {
        name: {"file": _seen_from(folder, value)} if isinstance(value, Path) else value
        for name, value in loading.items()
    }
    note = {"source": _seen_from(folder, Path(source)), "options": options}
    text, file = json.dumps(note, indent=1) + "\n", folder / SOURCE
    if _text_of(file) != text:
        with whole_file(file) as temporary:
            temporary.write_text(text)


def _text_of(file: Path) -> str | None:
    """What a file says; None where there is none, or one that cannot be read."""
    try:
        return read_text(file)
    except (OSError, ValueError):
        return None


def noted_source(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """What images are loaded from and how; None if that is not noted, or no longer there.

    The note may be a stranger's. It can name any images, but no folder around the models, such as
    a whole disk, and none that takes long to search. Whoever loads the images compares their
    pixels with those that were learned from before anything of them is shown.

    Args:
        folder: The fit's, its `best`, its `runs`, or any run's.
    """
    place = folder.resolve()
    fits = [parent for parent in (place, *place.parents[:2]) if (parent / SOURCE).is_file()]
    if not fits:
        return None
    note = fits[0] / SOURCE
    try:
        kept = FILE.check(read_json(note, file_names=True))
        source = Path(os.path.normpath(fits[0] / kept["source"]))
        options = {
            name: fits[0] / OPTION.check(value, ["options", name])["file"]
            if isinstance(value, dict)
            else value
            for name, value in kept["options"].items()
        }
        _check_loading(source, options)
    except (OSError, ValueError, UnweaveError) as error:
        raise DataError(
            f"{note} is damaged ({error}); remove it, and name the images with --data"
        ) from error
    files = [value for value in options.values() if isinstance(value, Path)]
    if not all(map(_is_there, (source, *files))) or fits[0].is_relative_to(source.resolve()):
        return None
    if not _is_searched_soon(source):
        raise DataError(
            f"{note} names {source}, which has more than {MOST_FILES:,} files or takes more than "
            f"{SEARCH_SECONDS} seconds to search; name the images with --data"
        )
    return source, options


def _check_loading(source: Path, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in LOADING or isinstance(value, Path) != (name in FILES):
            raise ValueError(f"images cannot be loaded with {shown(name)}: {shown(value)}")
    check_options(partial(from_path, source), "your own images", options)


def _is_searched_soon(folder: Path) -> bool:
    """Whether the names of all files in a folder can be listed in a moment."""
    end, count = time.monotonic() + SEARCH_SECONDS, 0
    for _, folders, files in os.walk(folder):  # which lists nothing of a file
        count += len(folders) + len(files)
        if count > MOST_FILES or time.monotonic() > end:
            return False
    return True


def _is_path(text: Any) -> bool:
    return isinstance(text, str) and bool(text) and "\0" not in text


_PATH = of_kind(_is_path, "a path")
FILE = Schema(
    SOURCE, f"entry of {SOURCE}", {"source": Required[_PATH], "options": Required[dict[str, Any]]}
)
OPTION = Schema("the file of an option", "entry of an option", {"file": Required[_PATH]})


def _is_there(path: Path) -> bool:
    """Whether a path is a folder or a regular file: others, such as pipes, may never end."""
    try:
        mode = path.stat().st_mode
    except OSError:  # it is missing, or its name is too long
        return False
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def _seen_from(folder: Path, path: Path) -> str:
    return os.path.relpath(path.expanduser().resolve(), folder.resolve())
