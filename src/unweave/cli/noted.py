"""Where the images of a fit or a run are, noted in its folder: later commands need not be told."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unweave.data import DATASETS
from unweave.data.cache import whole_file
from unweave.errors import DataError
from unweave.words import spelled

__all__ = ["SOURCE", "is_named", "noted_source", "write_source"]

SOURCE = "source.json"


def is_named(source: str) -> bool:
    """Whether a source is the name of a data set, and no path."""
    return spelled(source) in DATASETS


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
    if not file.is_file() or file.read_text() != text:
        with whole_file(file) as temporary:
            temporary.write_text(text)


def noted_source(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """What images are loaded from and how; None if that is not noted, or no longer there.

    Args:
        folder: The fit's, its `best`, its `runs`, or any run's.
    """
    place = folder.resolve()
    fits = [parent for parent in (place, *place.parents[:2]) if (parent / SOURCE).is_file()]
    if not fits:
        return None
    note = fits[0] / SOURCE
    try:
        kept = json.loads(note.read_text())
        options = {
            name: fits[0] / value["file"] if isinstance(value, dict) else value
            for name, value in kept["options"].items()
        }
        source = fits[0] / kept["source"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{note} is damaged ({error}); remove it, and name the images with --data"
        ) from error
    files = [value for value in options.values() if isinstance(value, Path)]
    return (source, options) if all(path.exists() for path in (source, *files)) else None


def _seen_from(folder: Path, path: Path) -> str:
    return os.path.relpath(path.expanduser().resolve(), folder.resolve())
