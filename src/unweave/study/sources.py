"""The data sets of a study: how each is loaded and transformed."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from unweave.data.catalog import DATASETS, factors_of, find_loader, is_named
from unweave.data.dataset import Dataset
from unweave.data.origin import (
    FILES,
    STEPS,
    apply_steps,
    check_options,
    check_steps,
    loading,
    origin_of,
)
from unweave.errors import DataError
from unweave.evaluation.score_cache import origin_text
from unweave.io.extensions import is_reference
from unweave.nets.adam import Adam
from unweave.nets.architectures import Architecture, name_of
from unweave.study.method_grids import StudyFileError
from unweave.text import canonical_name, shown

__all__ = ["Source", "as_plain", "check_name", "is_source"]

LONGEST_NAME = 100


@dataclass(frozen=True)
class Source:
    """A data set of a study."""

    name: str  # name of the data set in tables
    load: str  # name of a built-in data set, or path of custom images
    options: Mapping[str, Any] = field(default_factory=dict)  # options for loading
    # Transformations after loading: methods of `Dataset` and their arguments.
    changes: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, entry: "str | Mapping[str, Any] | Source") -> "Source":
        """Read a data set of a study: a name, or a mapping with `load`."""
        if isinstance(entry, Source):
            return entry
        if isinstance(entry, str):
            entry = {"load": entry}
        if not isinstance(entry, Mapping) or not is_source(entry):
            raise StudyFileError.must("data", "be names, or mappings with `load`", entry)
        load = str(entry["load"])
        key = canonical_name(load)
        load = key if is_named(key) else _absolute(load)
        options = {
            n: _absolute(v) if n in FILES and isinstance(v, str | Path) else v
            for n, v in entry.items()
            if n not in ("load", "name", *STEPS)
        }
        check_options(_loader(load), load, options, STEPS)
        changes = tuple((n, v) for n, v in entry.items() if n in STEPS)
        name = entry["name"] if "name" in entry else _printable(_stem(load))
        check_name("the name of a data set", name)
        made = cls(name, load, options, changes)
        check_steps(made.steps, factors_of(load))
        return made

    @property
    def steps(self) -> list[list[Any]]:
        """Its transformations in the format of `Dataset.origin`."""
        return [[n, *v] if isinstance(v, list | tuple) else [n, v] for n, v in self.changes]

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `of` accepts."""
        plain: dict[str, Any] = as_plain({**self.options, **dict(self.changes)})
        return {"name": self.name, "load": self.load, **plain}

    def open(self) -> Dataset:
        """Load the data set."""
        from unweave.data import load

        return apply_steps(load(self.load, **self.options), self.steps)

    def open_as(self, origin: Sequence[Any]) -> Dataset:
        """Load the data set, and raise an error unless it has the given origin."""
        data = self.open()
        if origin_text(origin_of(data)) != origin_text(origin):
            raise DataError(
                f"{self.name} ({self.load}) has changed since the study was planned; restore the "
                "original images"
            )
        return data

    @cached_property
    def origin(self) -> tuple[Any, ...]:
        """`Dataset.origin`; loads the images only if the origin depends on them."""
        if is_named(self.load) and not self.changes:
            return (loading(self.load, self.options),)
        data = self.open()
        return origin_of(data)

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of its images."""
        if self.load not in DATASETS:
            return self.open().shape
        height, width, channels = DATASETS[self.load].shape
        sides = (self.options.get("size", height), self.options.get("size", width))
        return *sides, self.options.get("channels", channels)


def is_source(entry: Any) -> bool:
    """Whether a value describes a data set: a name, or a mapping with `load`."""
    return isinstance(entry, str) or (
        isinstance(entry, Mapping) and isinstance(entry.get("load"), str | Path)
    )


def check_name(what: str, name: object) -> None:
    """Raise an error for names that are not short printable text."""
    if not isinstance(name, str):
        raise StudyFileError(
            f"{what} must be text, got {shown(name)}; put it in quotes", "name", name
        )
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise StudyFileError(
            f"{what} must have 1 to {LONGEST_NAME} printable characters, got {shown(name)}",
            "name",
            name,
        )


def _printable(text: str) -> str:
    """Make a valid name from a path, which may contain any character."""
    return "".join(c if c.isprintable() else "?" for c in text)[:LONGEST_NAME] or "images"


def _absolute(path: str | Path) -> str:
    return str(Path(os.path.expanduser(path)).absolute())  # noqa: PTH111 - as in `uw.data.load`


def _stem(load: str) -> str:
    """Default name of a data set."""
    return load.partition(":")[2] if is_reference(load) else Path(load).stem


def _loader(load: str) -> Any:
    """The function that loads a data set; its arguments are the options."""
    from unweave.data.custom import from_path

    return find_loader(load) if is_named(load) else partial(from_path, load)


def as_plain(value: Any) -> Any:
    """Convert a value in a study to JSON types."""
    if isinstance(value, Adam):
        return dataclasses.asdict(value)
    if isinstance(value, Architecture):
        return name_of(value)
    if isinstance(value, Mapping):
        return {name: as_plain(one) for name, one in value.items()}
    return [as_plain(one) for one in value] if isinstance(value, list | tuple | range) else value
