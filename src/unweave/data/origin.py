"""Origin of a data set: the steps that created it, as plain data, and how to repeat them.

    [["load", "dsprites", {}], ["slice", {"shape": [0, 2]}], ["correlate", "posX", "posY", 0.5]]

Custom images are `["own", NAME, HASH]`. A fourth element has the options that prepare other images
in the same way, if they differ from the default: `{"bits": 12, "non_square": "pad"}`.

Saved models and studies contain origins and may be untrusted, so only the steps in `STEPS` are
allowed, and every argument is checked before anything is loaded. Custom images are identified by a
hash of their pixels, so that a model recognises its data even if files at the same path change.
"""

import hashlib
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from numbers import Integral
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from unweave.data.catalog import DATASETS, factors_of, find_loader, is_named
from unweave.data.dataset import Dataset
from unweave.data.pictures import BIT_DEPTHS, FULL_BITS, NonSquare
from unweave.data.streaming import OnDisk, parts
from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.io.plain_data import is_number
from unweave.io.schema import Schema, SchemaError, UnknownKeyError, Whole, of_kind
from unweave.text import printable, shown

__all__ = [
    "FILES",
    "STEPS",
    "apply_steps",
    "check_options",
    "check_origin",
    "check_steps",
    "digest",
    "file_options",
    "load_matching",
    "load_training_data",
    "loading",
    "options_of",
    "origin_of",
    "preprocessing",
    "rebuild",
    "with_origin",
]


class OriginError(SchemaError, DataError):
    """Data that is not a valid origin of a data set."""


STEPS = {
    "slice": "a mapping of factors to the classes to keep",
    "leave_out": "a mapping of factors to the classes to exclude",
    "only": "a mapping of factors to the classes to sample",
    "correlate": "a list of two factors and a correlation",
}
"""Allowed steps, with a description of their arguments."""
FILES = ("factors", "path", "picture")
"""Loading options whose values are files."""
BY_CONTENT = re.compile(r"file ([0-9a-f]{16})")
"""Reference to a file in an origin: a hash of its content."""
MAX_STEPS = 100
MAX_CLASSES = 2**31


def with_origin(data: Dataset, source: Any, options: Mapping[str, Any]) -> Dataset:
    """Return the data set with the first step of its origin, which describes how to load it."""
    if isinstance(source, str) and is_named(source):
        return replace(data, origin=(loading(source, options),))
    recorded: dict[str, Any] = {}
    if data.bits is not None and not (data.files and data.bits == FULL_BITS):
        recorded["bits"] = data.bits
    if data.non_square != "crop":
        recorded["non_square"] = data.non_square
    step = ["own", data.name, digest(data), *([recorded] if recorded else [])]
    return replace(data, origin=(step,))


def preprocessing(origin: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return the options that prepare other images in the same way as custom images.

    They are options of `uw.data.load`: `bits` and `non_square`, if they differ from the default.
    An origin without `bits` means files of 16 bits, as in unweave 0.1, or of 8 bits.
    """
    match origin:
        case [["own", str(), str(), Mapping() as recorded], *_]:
            return dict(OWN.check(recorded, ["own"]))
    return {}


def origin_of(data: Dataset) -> tuple[Any, ...]:
    """Return the origin of a data set; one created without `load` is identified by its pixels."""
    return tuple(data.origin or with_origin(data, None, {}).origin)


def loading(name: str, options: Mapping[str, Any]) -> list[Any]:
    """Return the step that loads a data set by name, without loading it."""
    return ["load", name, {option: _plain(value) for option, value in sorted(options.items())}]


def rebuild(origin: Sequence[Sequence[Any]], source: Any = None, **options: Any) -> Dataset:
    """Recreate a data set from its origin.

    Custom images are loaded from `source`, their current location, and their pixels are checked.
    """
    from unweave.data import load

    if not origin:
        raise DataError(
            "this model does not record its training data; load the data and pass it",
            subject="origin",
        )
    check_origin(origin)
    first, *rest = origin
    if first[0] == "load":
        _reject_files(*first[1:])
        data = load(first[1], **first[2])
    elif source is None:
        raise DataError(
            f"this model was trained on custom images {shown(first[1])}; pass their location",
            subject="source",
            value=first[1],
        )
    else:
        data = load_matching(source, options, [first])
        if data.origin[0][2] != first[2]:
            raise DataError(
                f"the pixels differ from those of {shown(first[1])}; load the original images",
                subject="source",
                value=source,
            )
    return apply_steps(data, rest)


def load_matching(
    source: Any, options: Mapping[str, Any], steps: Sequence[Sequence[Any]]
) -> Dataset:
    """Load custom images, so that they have the pixels of one of these first steps if possible.

    Models of unweave 0.1 were trained on grey values of 16 bits, whatever their largest value.
    """
    from unweave.data import load

    data = load(source, **options)
    digests = [step[2] for step in steps if len(step) > 2 and step[0] == "own"]
    if data.bits in (None, FULL_BITS) or "bits" in options or data.origin[0][2] in digests:
        return data
    before = load(source, **{**options, "bits": FULL_BITS})
    return before if before.origin[0][2] in digests else data


def check_origin(origin: Any) -> None:
    """Reject anything that is not a valid origin, without loading anything."""
    match origin:
        case [["load", str(name), Mapping() as options], *rest]:
            check_options(find_loader(name), name, options)
            check_steps(rest, factors_of(name))
        case [["own", str(), str()], *rest]:
            check_steps(rest)
        case [["own", str(), str(), Mapping() as recorded], *rest]:
            OWN.check(recorded, ["own"])
            check_steps(rest)
        case _:
            raise DataError(
                f"an origin must begin with a step that loads the data, got {shown(origin)}",
                subject="origin",
                value=origin,
            )


def _reject_files(name: str, options: Mapping[str, Any]) -> None:
    """Reject paths in a saved model, which may be untrusted or missing.

    Only the file of an adversarial manipulation is allowed: it is found in the cache by its hash.
    """
    for option in file_options(find_loader(name)):
        value = options.get(option)
        needs = DATASETS[name].needs if name in DATASETS else None
        by_content = option == needs and BY_CONTENT.fullmatch(str(value))
        if value is not None and not by_content:
            raise DataError(
                f"{name} was loaded with {option}={shown(value)}, but for security, files named "
                f"in a saved model are not opened; load {name} with this {option} and pass "
                "the data",
                subject=option,
                value=value,
            )


def load_training_data(
    origin: Sequence[Sequence[Any]],
    advice: str = "pass the data (--data)",
    location: tuple[Any, Mapping[str, Any]] | None = None,
) -> Dataset:
    """Recreate the training data of models; if this fails, the error contains `advice`.

    For custom images, `location` is their current path and the options for loading them.
    """
    source, options = location or (None, {})
    try:
        return rebuild(origin, source, **options)
    except UnweaveError as error:
        raise DataError(
            f"cannot load the training data of the models; {advice}: {error}", subject="data"
        ) from error


def _plain(value: Any) -> Any:
    """Convert a value for JSON; a file is replaced by a hash of its content."""
    if not isinstance(value, str | Path) or not Path(value).is_file():
        return printable(value) if isinstance(value, str | Path) else value
    with Path(value).open("rb") as file:
        return f"file {hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def digest(data: Dataset) -> str:
    """Return a short hash of all pixels, and of the factors where known."""
    sha = hashlib.sha256()
    for part in (data.store, data.grid, data.labels):
        for field in fields(part) if part is not None else ():  # type: ignore[arg-type] # dataclasses
            value = getattr(part, field.name)
            if isinstance(value, OnDisk):
                for _, images in parts(value):
                    sha.update(np.ascontiguousarray(images).data)
                break  # the other fields of its store are not about the pixels
            plain = isinstance(value, np.ndarray)
            sha.update(np.ascontiguousarray(value).data if plain else repr(value).encode())
    return sha.hexdigest()[:16]


def apply_steps(data: Dataset, steps: Sequence[Sequence[Any]]) -> Dataset:
    """Apply steps to a data set after checking all of them."""
    check_steps(steps, None if data.grid is None else data.grid.names)
    for name, *arguments in steps:
        match name:
            case "slice":
                data = data.slice(**arguments[0])
            case "leave_out":
                data = data.leave_out(**arguments[0])
            case "only":
                data = data.only(**arguments[0])
            case "correlate":
                data = data.correlate(*arguments)
    return data


def check_steps(steps: Any, factors: Collection[str] | None = None) -> None:
    """Reject anything but a list of steps with valid arguments.

    Steps come from files, so they can be anything. `factors` are the factor names, if known.
    """
    if not isinstance(steps, list | tuple):
        raise OriginError(
            f"the steps of a data set must be a list, got {shown(steps)}", location="steps"
        )
    if len(steps) > MAX_STEPS:
        raise OriginError(
            f"a data set must have at most {MAX_STEPS} steps, got {len(steps):,}",
            location="steps",
        )
    for place, step in enumerate(steps, 1):
        if not isinstance(step, list | tuple) or not step or not isinstance(step[0], str):
            raise OriginError(
                f"a step of a data set must be a list beginning with its name, got {shown(step)}",
                location=f"step {place}",
            )
        name, *arguments = step
        if name not in STEPS:
            raise OriginError(
                f"unknown step of a data set {shown(name)}; use one of {', '.join(STEPS)}",
                location=f"step {place}",
            )
        single = name != "correlate" and len(arguments) == 1
        checked = _STEP.check({name: arguments[0] if single else arguments}, [f"step {place}"])
        named = checked[name][:2] if name == "correlate" else checked[name]
        unknown = [factor for factor in named if factors is not None and factor not in factors]
        if unknown:
            raise UnknownNameError("factor", unknown[0], factors or ())


def _are_classes(value: Any) -> bool:
    several = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    return all(
        isinstance(one, Integral) and is_number(one) and 0 <= one < MAX_CLASSES
        for one in (value if several else [value])
    )


def _is_correlation(value: Any) -> bool:
    match value:
        case [str(), str(), size]:
            return is_number(size) and -1 <= size <= 1
    return False


_CLASSES: Any = of_kind(_are_classes, "a class index or a list of them, counted from 0")
_CHOICE: Any = dict[str, _CLASSES]
_PAIR = of_kind(_is_correlation, "two factors and a correlation from -1 to 1")
_STEP = Schema(
    "a step of a data set",
    "step of a data set",
    {"slice": _CHOICE, "leave_out": _CHOICE, "only": _CHOICE, "correlate": _PAIR},
    OriginError,
)


OWN = Schema(
    "the preparation of custom images",
    "preparation option of custom images",
    {"bits": Literal[BIT_DEPTHS], "non_square": NonSquare},
    OriginError,
)


def options_of(loader: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the options of a loader function, except preset ones; old names are included."""
    preset = getattr(loader, "keywords", {})
    try:
        known: Mapping[str, inspect.Parameter] = inspect.signature(
            loader, eval_str=True
        ).parameters
    except NameError:  # an annotation that only type checkers can read
        known = inspect.signature(loader).parameters
    old_names = getattr(getattr(loader, "func", loader), "old_names", {})
    known = {**known, **{old: known[new] for old, new in old_names.items()}}
    return {name: one for name, one in known.items() if name not in preset}


def file_options(loader: Callable[..., Any]) -> list[str]:
    """Return the options of a loader that are files: `FILES`, and those annotated with `Path`."""
    paths = [n for n, one in options_of(loader).items() if "Path" in str(one.annotation)]
    return list(dict.fromkeys([*FILES, *paths]))


def check_options(
    loader: Callable[..., Any],
    name: str,
    options: Mapping[Any, Any],
    others: Iterable[str] = (),
) -> None:
    """Reject options that a loader does not have, and values of the wrong type.

    Options come from files, so keys and values can be anything. `others` are further valid keys,
    which are listed if a key is unknown.
    """
    known = options_of(loader)
    unknown = next((option for option in options if option not in known), None)
    if unknown is not None:
        place = f"{name}.{unknown}"
        raise UnknownKeyError(f"option of {name}", unknown, [*known, *others], place)
    types = {option: _type_of(one.annotation) for option, one in known.items()}
    Schema(f"options of {name}", f"option of {name}", types, OriginError).check(options, [name])


def _type_of(annotation: Any) -> Any:
    """Return the type of an option in a file: its annotation, with integers limited to 64 bits.

    Options of a user's loader without annotation accept numbers.
    """
    if annotation is inspect.Parameter.empty:
        return Whole | float | bool | None
    if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        return Union[tuple(_type_of(kind) for kind in get_args(annotation))]  # noqa: UP007
    return Whole if annotation is int else annotation
