"""The steps that a data set can go through after loading, and options of loading, as plain data.

    ["slice", {"shape": [0, 2]}]    ["leave_out", {"posX": 3}]    ["only", {"scale": 5}]
    ["correlate", "posX", "posY", 0.5]

Saved models and studies say in this form how their data set was made. Such a file may be a
stranger's, so the list of steps is closed, and every argument is checked before anything is
loaded.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Integral
from types import NoneType
from typing import Any, get_args

from unweave.data.dataset import Dataset
from unweave.errors import DataError, UnknownNameError
from unweave.io.plain_data import is_number
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
        raise DataError(f"the steps of a data set are a list, but got {shown(steps)}")
    if len(steps) > MOST_STEPS:
        raise DataError(f"a data set has at most {MOST_STEPS} steps, but got {len(steps):,}")
    for step in steps:
        if not isinstance(step, list | tuple) or not step or not isinstance(step[0], str):
            raise DataError(
                f"a step of a data set is a list that begins with its name, but got {shown(step)}"
            )
        name, *arguments = step
        if name not in STEPS:
            raise DataError(
                f"a data set has no step called {shown(name)}; the steps are {', '.join(STEPS)}"
            )
        named = _factors_in(arguments) if name == "correlate" else _factors_of(arguments)
        if named is None:
            raise DataError(f"{name} takes {STEPS[name]}, but got {shown(arguments)}")
        unknown = [factor for factor in named if factors is not None and factor not in factors]
        if unknown:
            raise UnknownNameError("factor", unknown[0], factors or ())


def _factors_of(arguments: Sequence[Any]) -> list[str] | None:
    """The factors of a choice of classes; None where it is none."""
    if len(arguments) != 1 or not isinstance(arguments[0], Mapping):
        return None
    choice = arguments[0]
    good = all(isinstance(name, str) and _are_classes(value) for name, value in choice.items())
    return list(choice) if good else None


def _are_classes(value: Any) -> bool:
    several = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    return all(
        isinstance(one, Integral) and is_number(one) and 0 <= one < MOST_CLASSES
        for one in (value if several else [value])
    )


def _factors_in(arguments: Sequence[Any]) -> list[str] | None:
    """The two factors that are to be correlated; None where the arguments are not such."""
    match arguments:
        case [str(first), str(second), size] if is_number(size) and -1 <= size <= 1:
            return [first, second]
    return None


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


def check_options(loader: Callable[..., Any], name: str, options: Mapping[Any, Any]) -> None:
    """Refuse options that a loader does not take, and values that are not of their kind.

    Args:
        loader: The function that loads the data set.
        name: What is loaded, for the message.
        options: From a file, so keys and values may be anything.
    """
    known = options_of(loader)
    for option, value in options.items():
        if option not in known:
            raise UnknownNameError(f"option of {name}", option, known)
        if not _fits(value, known[option].annotation):
            raise DataError(f"{option} of {name} cannot be {shown(value)}; change it")


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a plain value is of a kind such as `int | None`; what may be anything fits all.

    Options without annotation, of a user's own data set, take numbers.
    """
    if annotation is inspect.Parameter.empty:
        annotation = int | float | bool | None
    kinds = get_args(annotation) or (annotation,)
    if value is None:
        return NoneType in kinds or Any in kinds
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, int) and (int in kinds or float in kinds):
        return abs(value) < 2**63
    if isinstance(value, float) and float in kinds:
        return is_number(value)
    types = tuple(kind for kind in kinds if isinstance(kind, type) and kind is not float)
    return Any in kinds or isinstance(value, types)
