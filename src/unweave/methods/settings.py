"""Settings of methods: kinds that differ within a fleet, values that are several, and checks."""

from collections.abc import Iterable
from typing import Annotated, Any

from unweave.errors import UnweaveError

__all__ = ["OfModel", "Strength", "check_choice", "check_flags", "check_whole", "each_value"]

Strength = Any
"""A hyperparameter: a number; several, for a grid of methods; in a fleet a tensor `[M]`."""
OfModel = Annotated[str, "of each model"]
"""A setting in words, of which models of a fleet may each have their own; in a fleet a tuple."""


def each_value(value: object) -> list[Any]:
    """The values of a field, which may be several."""
    return list(value) if isinstance(value, list | tuple) else [value]


def check_flags(method: Any, *names: str) -> None:
    """Refuse fields of a method that are neither True nor False."""
    for name in names:
        for value in each_value(getattr(method, name)):
            if not isinstance(value, bool):
                raise UnweaveError(
                    f"{method.name}'s {name} must be True or False, but got {value!r}"
                )


def check_whole(method: Any, name: str, least: int, most: int | None = None) -> None:
    """Refuse a field of a method that is no whole number between two."""
    for value in each_value(getattr(method, name)):
        if type(value) is not int or value < least or (most is not None and value > most):
            limits = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise UnweaveError(
                f"{method.name}'s {name} must be a whole number {limits}, but got {value!r}"
            )


def check_choice(method: Any, name: str, valid: Iterable[str]) -> None:
    """Refuse a field of a method that is none of some words."""
    for value in each_value(getattr(method, name)):
        if value not in valid:
            raise UnweaveError(
                f"{method.name}'s {name} must be one of {', '.join(valid)}, but got {value!r}"
            )
