"""How a data set came about, as plain data, and how to make it again from that.

    [["load", "dsprites", {}], ["slice", {"shape": [0, 2]}], ["correlate", "posX", "posY", 0.5]]

Your own images are remembered with a digest of their pixels, so that a model knows its data even
when files change under the same path.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from unweave.data.catalog import DATASETS, factors_of, find_loader, is_named
from unweave.data.dataset import Dataset
from unweave.data.origin_steps import apply_steps, check_options, check_steps, file_options
from unweave.errors import DataError, UnweaveError
from unweave.text import readable, shown

__all__ = ["check_origin", "digest", "loading", "origin_of", "own_data", "rebuild", "remember"]

BY_CONTENT = re.compile(r"file ([0-9a-f]{16})")
"""How an origin names a file: by its content."""


def remember(data: Dataset, source: Any, options: Mapping[str, Any]) -> Dataset:
    """The data set with the first step of its origin: how it was loaded."""
    if isinstance(source, str) and is_named(source):
        return replace(data, origin=(loading(source, options),))
    return replace(data, origin=(["own", data.name, digest(data)],))


def origin_of(data: Dataset) -> tuple[Any, ...]:
    """How a data set came about; one that nothing loaded is known by its pixels."""
    return tuple(data.origin or remember(data, None, {}).origin)


def loading(name: str, options: Mapping[str, Any]) -> list[Any]:
    """The step that loads a data set by its name, known without loading it."""
    return ["load", name, {option: _plain(value) for option, value in sorted(options.items())}]


def rebuild(origin: Sequence[Sequence[Any]], source: Any = None, **options: Any) -> Dataset:
    """Make a data set again from its origin.

    Args:
        origin: What `Dataset.origin` was.
        source: For your own images, where they are now; their pixels are checked.
        options: And how they were loaded.
    """
    from unweave.data import load

    if not origin:
        raise DataError("this model does not say what data it was trained on; load it yourself")
    check_origin(origin)
    first, *rest = origin
    if first[0] == "load":
        _demand_no_files(*first[1:])
        data = load(first[1], **first[2])
    elif source is None:
        raise DataError(
            f"this model was trained on your own images {shown(first[1])}; say where they are"
        )
    else:
        data = load(source, **options)
        if digest(data) != first[2]:
            raise DataError(
                f"these are not the images that {shown(first[1])} had; load the right ones"
            )
    return apply_steps(data, rest)


def check_origin(origin: Any) -> None:
    """Refuse anything but the origin of a data set; nothing is loaded.

    Args:
        origin: From a file, so it may be anything.
    """
    match origin:
        case [["load", str(name), Mapping() as options], *rest]:
            check_options(find_loader(name), name, options)
            check_steps(rest, factors_of(name))
        case [["own", str(), str()], *rest]:
            check_steps(rest)
        case _:
            raise DataError(
                f"the origin of a data set begins with how it was loaded, but got {shown(origin)}"
            )


def _demand_no_files(name: str, options: Mapping[str, Any]) -> None:
    """Refuse to open a path that a saved model names: it may be a stranger's, or long gone.

    Only the file of a manipulation is found again, by its content and in the cache.
    """
    for option in file_options(find_loader(name)):
        value = options.get(option)
        needs = DATASETS[name].needs if name in DATASETS else None
        by_content = option == needs and BY_CONTENT.fullmatch(str(value))
        if value is not None and not by_content:
            raise DataError(
                f"{name} was loaded with {option}={shown(value)}, and files are not opened because"
                f" a saved model names them; load {name} yourself with that {option}"
            )


def own_data(
    origin: Sequence[Sequence[Any]],
    advice: str = "name them as data (--data)",
    noted: tuple[Any, Mapping[str, Any]] | None = None,
) -> Dataset:
    """What models of an origin learned from.

    Args:
        origin: What `Dataset.origin` was.
        advice: What to do where that cannot be had.
        noted: For your own images, where they are now, and how they were loaded.
    """
    source, options = noted or (None, {})
    try:
        return rebuild(origin, source, **options)
    except UnweaveError as error:
        raise DataError(f"the models' own data cannot be had, so {advice}: {error}") from error


def _plain(value: Any) -> Any:
    """A value that JSON knows; a file counts by its content, wherever it lies."""
    if not isinstance(value, str | Path) or not Path(value).is_file():
        return readable(value) if isinstance(value, str | Path) else value
    with Path(value).open("rb") as file:
        return f"file {hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def digest(data: Dataset) -> str:
    """A short hash of all pixels, and of the factors where they are known."""
    sha = hashlib.sha256()
    for part in (data.store, data.grid, data.labels):
        for field in fields(part) if part is not None else ():  # type: ignore[arg-type] # dataclasses
            value = getattr(part, field.name)
            plain = isinstance(value, np.ndarray)
            sha.update(np.ascontiguousarray(value).data if plain else repr(value).encode())
    return sha.hexdigest()[:16]
