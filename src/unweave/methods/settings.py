"""Declared types of method fields, grids of values, and validation."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io.plain_data import is_number
from unweave.text import shown

__all__ = [
    "PerModel",
    "Setting",
    "Strength",
    "as_list",
    "check_choice",
    "check_integer",
    "check_kinds",
    "check_range",
    "settings_of",
]


class PerModel:
    """Marks a field that may differ between the models of a fleet.

        beta: Annotated[float, PerModel] = 4.0
        layout: Annotated[str, PerModel] = ""

    In `losses`, a numeric field of M models is a tensor `[M]`, and a string field a tuple of
    length M.
    """


Strength = Annotated[Any, PerModel]
"""`Annotated[float, PerModel]`, but type checkers also accept a grid, `BetaVAE(beta=[1, 4])`."""


class Setting(NamedTuple):
    """The declared type of a field.

    Args:
        kind: Type of the field: `float`, `int`, `bool`, `str`, or any other.
        per_model: Whether the field is marked with `PerModel`.
    """

    kind: Any
    per_model: bool = False


@cache
def settings_of(owner: type) -> Mapping[str, Setting]:
    """Return the fields of a dataclass by name; postponed annotations are resolved."""
    try:
        hints = get_type_hints(owner, include_extras=True)
    except NameError as error:
        raise UnweaveError(
            f"cannot resolve the annotations of {owner.__name__}: {error}; import the name at "
            "the top of its module, not in a function or under TYPE_CHECKING"
        ) from error
    return {field.name: _setting(hints[field.name]) for field in fields(owner)}


def _setting(hint: Any) -> Setting:
    if get_origin(hint) is not Annotated:
        return Setting(hint)
    kind, *marks = get_args(hint)
    per_model = PerModel in marks
    return Setting(float if per_model and kind is Any else kind, per_model)


def as_list(value: object) -> list[Any]:
    """Return the values of a field as a list, whether it holds one or several."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _is_strength(value: object) -> bool:
    return isinstance(value, Tensor) or (is_number(value) and value >= 0)


CHECKS: dict[Setting, tuple[Callable[[Any], bool], str]] = {
    Setting(float, per_model=True): (_is_strength, "at least 0 and finite"),
    **{
        Setting(str, per_model): (lambda value: isinstance(value, str), "a string")
        for per_model in (True, False)
    },
    Setting(int): (lambda value: type(value) is int, "an integer"),
    Setting(bool): (lambda value: isinstance(value, bool), "True or False"),
}
"""Validation function and expected value, for error messages, of each type of field."""


def check_kinds(method: Any) -> None:
    """Check that values have the type of their field; values read from files may have any type."""
    owner: type = type(method)
    for name, setting in settings_of(owner).items():
        if setting not in CHECKS:
            continue
        is_valid, expected = CHECKS[setting]
        for value in as_list(getattr(method, name)):
            if not is_valid(value):
                _refuse(method, name, expected, value)


def check_integer(method: Any, name: str, least: int, most: int | None = None) -> None:
    """Check that a field of a method is an integer within limits."""
    value = getattr(method, name)
    if type(value) is not int or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        _refuse(method, name, f"an integer {limits}", value)


def check_choice(method: Any, name: str, valid: Iterable[str]) -> None:
    """Check that a field of a method is one of the valid values."""
    value = getattr(method, name)
    if value not in valid:
        _refuse(method, name, f"one of {', '.join(valid)}", value)


def check_range(method: Any, name: str, least: float, most: float, where: str = "") -> None:
    """Check that a field of a method is a number within limits."""
    value = getattr(method, name)
    if not least <= value <= most:
        _refuse(method, name, f"between {least:g} and {most:g}{where}", value)


def _refuse(method: Any, name: str, expected: str, value: object) -> NoReturn:
    raise UnweaveError(
        f"{name} of {method.name} must be {expected}, got {shown(value)}",
        subject=name,
        value=value,
    )
