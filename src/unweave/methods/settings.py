"""Settings of methods: kinds that differ within a fleet, values that are several, and checks."""

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Annotated, Any

from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io.plain_data import is_number
from unweave.text import shown

__all__ = [
    "KINDS",
    "OfModel",
    "Strength",
    "check_choice",
    "check_kinds",
    "check_whole",
    "each_value",
]

Strength = Any
"""A hyperparameter: a number; several, for a grid of methods; in a fleet a tensor `[M]`."""
OfModel = Annotated[str, "of each model"]
"""A setting in words, of which models of a fleet may each have their own; in a fleet a tuple."""


def each_value(value: object) -> list[Any]:
    """The values of a field, which may be several."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _is_strength(value: object) -> bool:
    return isinstance(value, Tensor) or (is_number(value) and value >= 0)


STRENGTH = (_is_strength, "at least 0 and finite")
TEXT = (lambda value: isinstance(value, str), "text")
KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    Strength: STRENGTH,
    "Strength": STRENGTH,
    OfModel: TEXT,
    str: TEXT,
    int: (lambda value: type(value) is int, "a whole number"),
    bool: (lambda value: isinstance(value, bool), "True or False"),
}
"""By the type of a field, whether a value is of its kind, and what such a value is called."""


def check_kinds(method: Any) -> None:
    """Refuse values that are not of their field's kind: those of a file may be anything."""
    for field in fields(method):
        if field.type not in KINDS:
            continue
        fits, word = KINDS[field.type]
        for value in each_value(getattr(method, field.name)):
            if not fits(value):
                raise UnweaveError(
                    f"{method.name}'s {field.name} must be {word}, but got {shown(value)}"
                )


def check_whole(method: Any, name: str, least: int, most: int | None = None) -> None:
    """Refuse a field of a method that is no whole number between two."""
    for value in each_value(getattr(method, name)):
        if type(value) is not int or value < least or (most is not None and value > most):
            limits = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise UnweaveError(
                f"{method.name}'s {name} must be a whole number {limits}, but got {shown(value)}"
            )


def check_choice(method: Any, name: str, valid: Iterable[str]) -> None:
    """Refuse a field of a method that is none of some words."""
    for value in each_value(getattr(method, name)):
        if value not in valid:
            raise UnweaveError(
                f"{method.name}'s {name} must be one of {', '.join(valid)}, but got {shown(value)}"
            )
