"""Checks of integer arguments: counts within bounds, and random seeds."""

import operator
from typing import SupportsIndex

import numpy as np

from unweave.errors import UnweaveError

__all__ = ["LARGEST_SEED", "check_count", "check_seed", "numpy_rng"]

LARGEST_SEED = 2**63 - 1
"""Largest integer that fits into tensors and files."""


def check_count(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """Return the value as an integer; raise an error unless it is one within the bounds.

    Example:
        >>> check_count("columns", 10, 1, 1_000)
        10
    """
    number = None if isinstance(value, bool) else _as_integer(value)
    if number is None or not least <= number <= most:
        bounds = f"from {least:,} to {'2**63 - 1' if most == LARGEST_SEED else f'{most:,}'}"
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
    return check_count("seed", seed, 0, LARGEST_SEED)


def numpy_rng(seed: SupportsIndex) -> np.random.Generator:
    """Return a NumPy random generator for a seed."""
    return np.random.default_rng(check_seed(seed))
