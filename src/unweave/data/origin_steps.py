"""The steps that a data set can go through after loading, and options of loading, as plain data.

    ["slice", {"shape": [0, 2]}]    ["leave_out", {"posX": 3}]    ["only", {"scale": 5}]
    ["correlate", "posX", "posY", 0.5]

Saved models and studies say in this form how their data set was made. Such a file may be a
stranger's, so the list of steps is closed, and every argument is checked before anything is
loaded.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Integral
from types import UnionType
from typing import Any, Union, get_args, get_origin

from unweave.data.dataset import Dataset
from unweave.errors import DataError, UnknownNameError
from unweave.io.plain_data import is_number
from unweave.io.schema import Schema, SchemaError, UnknownKeyError, Whole, of_kind
from unweave.text import shown

__all__ = [
    "FILES",
    "STEPS",
    "apply_steps",
    "check_options",
    "check_steps",
    "file_options",
    "options_of",
]


class OriginError(SchemaError, DataError):
    """Plain data that are not the origin of a data set."""


STEPS = {
    "slice": "a mapping of factors to the classes that stay",
    "leave_out": "a mapping of factors to the classes that go",
    "only": "a mapping of factors to the classes that are drawn",
    "correlate": "a list of two factors and a correlation",
}
"""Every step, and what it takes."""
FILES = ("factors", "path", "picture")
"""Loading options that are files."""
MOST_STEPS = 100
MOST_CLASSES = 2**31


def apply_steps(data: Dataset, steps: Sequence[Sequence[Any]]) -> Dataset:
    """The data set after some steps, all of which are checked before the first is done."""
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
    """Refuse anything but a list of steps, each with arguments that it can take.

    Args:
        steps: From a file, so it may be anything.
        factors: The names of the data set's factors, where they are known.
    """
    if not isinstance(steps, list | tuple):
        raise OriginError(f"the steps of a data set are a list, but got {shown(steps)}")
    if len(steps) > MOST_STEPS:
        raise OriginError(f"a data set has at most {MOST_STEPS} steps, but got {len(steps):,}")
    for place, step in enumerate(steps, 1):
        if not isinstance(step, list | tuple) or not step or not isinstance(step[0], str):
            raise OriginError(
                f"a step of a data set is a list that begins with its name, but got {shown(step)}"
            )
        name, *arguments = step
        if name not in STEPS:
            raise OriginError(
                f"a data set has no step called {shown(name)}; the steps are {', '.join(STEPS)}"
            )
        one = name != "correlate" and len(arguments) == 1
        said = _STEP.check({name: arguments[0] if one else arguments}, [f"step {place}"])
        named = said[name][:2] if name == "correlate" else said[name]
        unknown = [factor for factor in named if factors is not None and factor not in factors]
        if unknown:
            raise UnknownNameError("factor", unknown[0], factors or ())


def _are_classes(value: Any) -> bool:
    several = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    return all(
        isinstance(one, Integral) and is_number(one) and 0 <= one < MOST_CLASSES
        for one in (value if several else [value])
    )


def _is_correlation(value: Any) -> bool:
    match value:
        case [str(), str(), size]:
            return is_number(size) and -1 <= size <= 1
    return False


_CLASSES: Any = of_kind(_are_classes, "a class counted from 0, or several")
_CHOICE: Any = dict[str, _CLASSES]
_PAIR = of_kind(_is_correlation, "two factors and a correlation from -1 to 1")
_STEP = Schema(
    "a step of a data set",
    "step of a data set",
    {"slice": _CHOICE, "leave_out": _CHOICE, "only": _CHOICE, "correlate": _PAIR},
    OriginError,
)


def options_of(loader: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The options that a function that loads a data set takes, without those preset."""
    preset = getattr(loader, "keywords", {})
    try:
        known = inspect.signature(loader, eval_str=True).parameters
    except NameError:  # an annotation that only type checkers can read
        known = inspect.signature(loader).parameters
    return {name: one for name, one in known.items() if name not in preset}


def file_options(loader: Callable[..., Any]) -> list[str]:
    """The options of a loader that are files: those in `FILES`, and those that take a `Path`."""
    paths = [n for n, one in options_of(loader).items() if "Path" in str(one.annotation)]
    return list(dict.fromkeys([*FILES, *paths]))


def check_options(
    loader: Callable[..., Any],
    name: str,
    options: Mapping[Any, Any],
    others: Iterable[str] = (),
) -> None:
    """Refuse options that a loader does not take, and values that are not of their kind.

    Args:
        loader: The function that loads the data set.
        name: What is loaded, for the message.
        options: From a file, so keys and values may be anything.
        others: What may stand beside them, for the message on an unknown one.
    """
    known = options_of(loader)
    unknown = next((option for option in options if option not in known), None)
    if unknown is not None:
        place = f"{name}.{unknown}"
        raise UnknownKeyError(f"option of {name}", unknown, [*known, *others], place)
    types = {option: _type_of(one.annotation) for option, one in known.items()}
    Schema(f"options of {name}", f"option of {name}", types, OriginError).check(options, [name])


def _type_of(annotation: Any) -> Any:
    """The type of an option in a file: that of its annotation, with whole numbers of 64 bits.

    Options without annotation, of a user's own data set, take numbers.
    """
    if annotation is inspect.Parameter.empty:
        return Whole | float | bool | None
    if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        return Union[tuple(_type_of(kind) for kind in get_args(annotation))]  # noqa: UP007
    return Whole if annotation is int else annotation
