"""Fields of methods: which may differ within a fleet, which hold several values, and checks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io.plain_data import is_number
from unweave.text import shown

__all__ = [
    "PerModel",
    "Setting",
    "Strength",
    "check_choice",
    "check_kinds",
    "check_whole",
    "each_value",
    "settings_of",
]


class PerModel:
    """Marks a field that may differ between the models of a fleet.

        beta: Annotated[float, PerModel] = 4.0
        layout: Annotated[str, PerModel] = ""

    In `losses`, the numbers of M models are a tensor `[M]`, and their texts a tuple of length M.
    """


Strength = Annotated[Any, PerModel]
"""`Annotated[float, PerModel]`, but type checkers also accept a grid, `BetaVAE(beta=[1, 4])`."""


class Setting(NamedTuple):
    """The declared type of a field.

    Args:
        kind: `float`, `int`, `bool`, `str`, or any other type.
        per_model: Whether it is marked with `PerModel`.
    """

    kind: Any
    per_model: bool = False


@cache
def settings_of(owner: type) -> Mapping[str, Setting]:
    """The fields of a dataclass by name, also where its annotations are postponed."""
    try:
        hints = get_type_hints(owner, include_extras=True)
    except NameError as error:
        raise UnweaveError(
            f"the annotations of {owner.__name__} cannot be resolved: {error}; import the name at "
            "the top of its module, not in a function or under TYPE_CHECKING"
        ) from error
    return {field.name: _setting(hints[field.name]) for field in fields(owner)}


def _setting(hint: Any) -> Setting:
    if get_origin(hint) is not Annotated:
        return Setting(hint)
    kind, *marks = get_args(hint)
    per_model = PerModel in marks
    return Setting(float if per_model and kind is Any else kind, per_model)


def each_value(value: object) -> list[Any]:
    """The values of a field, which may be several."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _is_strength(value: object) -> bool:
    return isinstance(value, Tensor) or (is_number(value) and value >= 0)


CHECKS: dict[Setting, tuple[Callable[[Any], bool], str]] = {
    Setting(float, per_model=True): (_is_strength, "at least 0 and finite"),
    **{
        Setting(str, per_model): (lambda value: isinstance(value, str), "text")
        for per_model in (True, False)
    },
    Setting(int): (lambda value: type(value) is int, "a whole number"),
    Setting(bool): (lambda value: isinstance(value, bool), "True or False"),
}
"""Whether a value is of a field's kind, and the words for such a value."""


def check_kinds(method: Any) -> None:
    """Refuse values that are not of their field's kind: those from a file may be anything."""
    owner: type = type(method)
    for name, setting in settings_of(owner).items():
        if setting not in CHECKS:
            continue
        fits, words = CHECKS[setting]
        for value in each_value(getattr(method, name)):
            if not fits(value):
                raise UnweaveError(
                    f"{method.name}'s {name} must be {words}, but got {shown(value)}"
                )


def check_whole(method: Any, name: str, least: int, most: int | None = None) -> None:
    """Refuse a field of a method that is not a whole number within limits."""
    value = getattr(method, name)
    if type(value) is not int or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise UnweaveError(
            f"{method.name}'s {name} must be a whole number {limits}, but got {shown(value)}"
        )


def check_choice(method: Any, name: str, valid: Iterable[str]) -> None:
    """Refuse a field of a method that is none of some words."""
    value = getattr(method, name)
    if value not in valid:
        raise UnweaveError(
            f"{method.name}'s {name} must be one of {', '.join(valid)}, but got {shown(value)}"
        )
