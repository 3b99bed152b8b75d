"""Function arguments: counts within bounds, random seeds, and renamed keyword arguments."""

import functools
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from unweave.errors import UnweaveError

__all__ = [
    "MAX_SEED",
    "check_count",
    "check_seed",
    "numpy_rng",
    "renamed_arguments",
    "renamed_attribute",
]

Function = TypeVar("Function", bound=Callable[..., Any])

MAX_SEED = 2**63 - 1
"""Largest integer that fits into tensors and files."""


def check_count(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """Return the value as an integer; raise an error unless it is one within the bounds.

    Example:
        >>> check_count("columns", 10, 1, 1_000)
        10
    """
    number = None if isinstance(value, bool) else _as_integer(value)
    if number is None or not least <= number <= most:
        bounds = f"from {least:,} to {'2**63 - 1' if most == MAX_SEED else f'{most:,}'}"
        # Python refuses to print integers with thousands of digits.
        shown = repr(value) if number is None or abs(number) < 10**40 else "a much larger one"
        raise UnweaveError(
            f"{name} must be an integer {bounds}, got {shown}", subject=name, value=value
        )
    return number


def _as_integer(value: SupportsIndex) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_seed(seed: SupportsIndex) -> int:
    """Return the seed as an integer; raise an error unless it is from 0 to 2**63 - 1."""
    return check_count("seed", seed, 0, MAX_SEED)


def numpy_rng(seed: SupportsIndex) -> np.random.Generator:
    """Return a NumPy random generator for a seed."""
    return np.random.default_rng(check_seed(seed))


def renamed_arguments(**names: str) -> Callable[[Function], Function]:
    """Decorate a function or class so that the old names of keyword arguments still work.

    An old name causes a `DeprecationWarning`. It is supported for one release.

    Args:
        names: New name of each old one.

    Example:
        >>> @renamed_arguments(colour="color")
        ... def paint(color):
        ...     return color
        >>> paint(color="red")
        'red'
    """

    def decorate(function: Function) -> Function:
        if isinstance(function, type):
            function.__init__ = decorate(function.__init__)  # type: ignore[misc]
            return function

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **_with_new_names(kwargs, names))

        wrapper.old_names = names  # type: ignore[attr-defined]
        return wrapper  # type: ignore[return-value]

    return decorate


def _with_new_names(kwargs: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    renamed = dict(kwargs)
    for old, new in names.items():
        if old in kwargs:
            if new in kwargs:
                raise TypeError(f"{old} is the old name of {new}; pass only {new}")
            _warn(old, new)
            renamed[new] = renamed.pop(old)
    return renamed


def renamed_attribute(old: str, new: str) -> Any:
    """Return a property that reads an attribute by its old name, with a `DeprecationWarning`."""

    def read(owner: Any) -> Any:
        _warn(old, new)
        return getattr(owner, new)

    return property(read, doc=f"Old name of `{new}`.")


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=4)
