"""Where images are read from: files of a folder, pages of a file, or rows of a table."""

import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import UnidentifiedImageError

from unweave.data.pictures import NonSquare, Original, read_picture

__all__ = ["Outcome", "Preprocessing", "Source", "attempted", "check_regular", "file_source"]

Outcome = tuple[np.ndarray, Original] | str
"""An image `[size, size, C]` and its description, or why it cannot be read."""


class Preprocessing(NamedTuple):
    """How images are read; see `unweave.data.custom.from_path`."""

    size: int
    channels: int | None
    bits: int | None
    non_square: NonSquare


class Source(NamedTuple):
    """Images that are read together: those of a file, or some of its pages."""

    names: tuple[str, ...]
    """Name of each image."""
    read: Callable[[Preprocessing], list[Outcome]]
    """Function that reads all of them."""


def file_source(path: Path, name: str) -> Source:
    """Return the source of an image file with a single image."""
    return Source((name,), partial(_read_file, path))


def attempted(read: Callable[[], tuple[np.ndarray, Original]]) -> Outcome:
    """Read an image; if this fails, return the reason."""
    try:
        return read()
    except UnidentifiedImageError:
        return "not an image"
    except Exception as error:  # Pillow raises nearly anything for broken files
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return " ".join(reason.split())


def check_regular(path: Path) -> None:
    """Reject pipes and devices, which could block forever, and empty files."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("not a regular file")
    if not status.st_size:
        raise ValueError("the file is empty")


def _read_file(path: Path, options: Preprocessing) -> list[Outcome]:
    def read() -> tuple[np.ndarray, Original]:
        check_regular(path)
        return read_picture(path, *options)

    return [attempted(read)]
