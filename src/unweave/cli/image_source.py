"""Record the location of the images of a fit or run in `source.json`, for later commands."""

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
from unweave.data.huggingface import is_saved
from unweave.data.origin import FILES, check_options
from unweave.errors import DataError, UnweaveError
from unweave.io.plain_data import read_json, read_text
from unweave.io.schema import Required, Schema, of_kind
from unweave.io.writing import whole_file
from unweave.models.zoo import zoo_folder
from unweave.text import canonical_name, shown

__all__ = ["SOURCE", "is_named", "record_source", "recorded_source"]

SOURCE = "source.json"
LOADING = ("size", "channels", "bits", "non_square", *FILES)
"""Options for loading images."""
MAX_FILES = 500_000
SEARCH_SECONDS = 10
"""Limits on searching a folder that is named in `source.json`."""


def is_named(source: str) -> bool:
    """Whether a source is the name of a data set rather than a path."""
    return catalog.is_named(canonical_name(source))


def record_source(folder: Path, source: str, loading: Mapping[str, Any]) -> None:
    """Record the path of the images, relative to the folder, and how they were loaded.

    Args:
        folder: Folder of the fit or run.
        source: Path given by the user.
        loading: Options of `uw.data.load`; file names must be `Path` objects.
    """
    options = {
        name: {"file": _relative(value, folder)} if isinstance(value, Path) else value
        for name, value in loading.items()
    }
    if _are_columns(source, loading.get("factors")):
        options["factors"] = str(loading["factors"])
    record = {"source": _relative(Path(source), folder), "options": options}
    text, file = json.dumps(record, indent=1) + "\n", folder / SOURCE
    if _read_text(file) != text:
        with whole_file(file) as temporary:
            temporary.write_text(text)


def _read_text(file: Path) -> str | None:
    """Return the text of a file; None if it is missing or cannot be read."""
    try:
        return read_text(file)
    except (OSError, ValueError):
        return None


def recorded_source(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the path and loading options of the images; None if not recorded or missing.

    The file is untrusted. It can name any images except a folder that contains the models, such as
    a whole disk, or one that takes too long to search. Callers must compare the pixels with those
    of the training data before showing them.

    Args:
        folder: Folder of a fit, its `best` or `runs` folder, the folder of a run, or `zoo:NAME`.
    """
    if zoo_folder(folder) is not None:
        return None
    start = folder.resolve()
    fits = [parent for parent in (start, *start.parents[:2]) if (parent / SOURCE).is_file()]
    if not fits:
        return None
    file = fits[0] / SOURCE
    try:
        record = FILE.check(read_json(file, file_names=True))
        source = Path(os.path.normpath(fits[0] / record["source"]))
        options = {
            name: fits[0] / OPTION.check(value, ["options", name])["file"]
            if isinstance(value, dict)
            else value
            for name, value in record["options"].items()
        }
        _check_loading(source, options)
    except (OSError, ValueError, UnweaveError) as error:
        raise DataError(
            f"{file} is damaged ({error}); remove it and pass the images with --data",
            subject=file,
        ) from error
    files = [value for value in options.values() if isinstance(value, Path)]
    if not all(map(_exists, (source, *files))) or fits[0].is_relative_to(source.resolve()):
        return None
    if not _is_quick_to_search(source):
        raise DataError(
            f"{source}, named in {file}, has more than {MAX_FILES:,} files or takes more than "
            f"{SEARCH_SECONDS} seconds to search; pass the images with --data",
            subject=source,
        )
    return source, options


def _check_loading(source: Path, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        columns = name == "factors" and isinstance(value, str) and is_saved(source)
        if name not in LOADING or (isinstance(value, Path) != (name in FILES) and not columns):
            raise ValueError(f"invalid loading option {shown(name)}: {shown(value)}")
    check_options(partial(from_path, source), "your own images", options)


def _are_columns(source: str, factors: Path | None) -> bool:
    """Whether factors are columns of a Hugging Face data set rather than a file."""
    return factors is not None and not factors.exists() and is_saved(Path(source).expanduser())


def _is_quick_to_search(folder: Path) -> bool:
    """Whether all files in a folder can be listed within the limits."""
    end, count = time.monotonic() + SEARCH_SECONDS, 0
    for _, folders, files in os.walk(folder):  # yields nothing for a file
        count += len(folders) + len(files)
        if count > MAX_FILES or time.monotonic() > end:
            return False
    return True


def _is_path(text: Any) -> bool:
    return isinstance(text, str) and bool(text) and "\0" not in text


_PATH = of_kind(_is_path, "a path")
FILE = Schema(
    SOURCE, f"entry of {SOURCE}", {"source": Required[_PATH], "options": Required[dict[str, Any]]}
)
OPTION = Schema("a loading option", "entry of a loading option", {"file": Required[_PATH]})


def _exists(path: Path) -> bool:
    """Whether a path is a folder or a regular file; reading a pipe could block forever."""
    try:
        mode = path.stat().st_mode
    except OSError:  # missing, or the name is too long
        return False
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path.expanduser().resolve(), folder.resolve())
