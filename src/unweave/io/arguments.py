"""Whole numbers that a user gives: counts within bounds, and random seeds."""

import operator
from typing import SupportsIndex

import numpy as np

from unweave.errors import UnweaveError

__all__ = ["LARGEST_SEED", "check_count", "check_seed", "numpy_rng"]

LARGEST_SEED = 2**63 - 1
"""What fits into the integers of tensors and files."""


def check_count(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """The value as an integer; anything but a whole number within the bounds is an error.

    Example:
        >>> check_count("columns", 10, 1, 1_000)
        10
    """
    number = None if isinstance(value, bool) else _whole(value)
    if number is None or not least <= number <= most:
        limits = f"from {least:,} to {'2**63 - 1' if most == LARGEST_SEED else f'{most:,}'}"
        # Python refuses to write out integers of thousands of digits.
        shown = repr(value) if number is None or abs(number) < 10**40 else "one far beyond"
        raise UnweaveError(f"{name} must be a whole number {limits}, got {shown}")
    return number


def _whole(value: SupportsIndex) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_seed(seed: SupportsIndex) -> int:
    """The seed as an integer; anything but a whole number from 0 to 2**63 - 1 is an error."""
    return check_count("seed", seed, 0, LARGEST_SEED)


def numpy_rng(seed: SupportsIndex) -> np.random.Generator:
    """NumPy's generator of a seed."""
    return np.random.default_rng(check_seed(seed))
