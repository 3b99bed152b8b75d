"""What an `Unweaver` trains: method, seeds and architecture, from its parameters and the rows."""

import math
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from unweave.errors import UnknownNameError
from unweave.methods import EVERY, METHODS, Method, find_method
from unweave.models.rows import InputError
from unweave.text import size_text, spelled

__all__ = ["architecture_for", "method_with", "seeds_from"]

CONVOLVED = (32, 64, 128)
LARGEST_SMALL, LARGEST_DENSE = 256, 128 * 128 * 3
"""Numbers in a row for which `small_mlp` does, and for which `mlp` can: 1,200 weights for each."""


def method_with(method: str | Method, strengths: Any) -> Method | None:
    """The method with its strengths; None for what `uw.fit` does by default."""
    if isinstance(method, Method):
        if strengths is not None:
            raise InputError(
                f"{method} has its own strengths; give its name, or leave strengths out"
            )
        return method
    name = spelled(str(method))
    kind = find_method(name)
    if name in EVERY and name not in METHODS:
        raise UnknownNameError("method", str(method), METHODS)
    if strengths is None:
        return None if name == "beta_vae" else kind()
    if not kind.strengths():
        raise InputError(f"{method} has no strength; leave strengths out")
    return kind(**{kind.strengths()[0]: np.atleast_1d(strengths).tolist()})


def seeds_from(count: int, random_state: Any) -> list[int]:
    """So many seeds: 0, 1, 2 …, or drawn where there is a `random_state`."""
    if count < 1:
        raise InputError(f"seeds must be at least 1, but got {count}")
    if random_state is None:
        return list(range(count))
    drawn: list[int] = check_random_state(random_state).randint(2**31 - 1, size=count).tolist()
    return drawn


def architecture_for(shape: tuple[int, int, int]) -> str:
    """Convolutions for square images of some sizes, dense layers for all else."""
    height, width, _ = shape
    if height == width and height in CONVOLVED:
        return "conv"
    if math.prod(shape) > LARGEST_DENSE and height == 1:
        raise InputError(
            f"rows of {math.prod(shape):,} numbers are too long for dense layers, which take "
            f"{LARGEST_DENSE:,}; leave some out, or reduce them first"
        )
    if math.prod(shape) > LARGEST_DENSE:
        raise InputError(
            f"images {size_text(shape)} are too large for dense layers; make them squares of "
            "32, 64 or 128 pixels"
        )
    return "small_mlp" if math.prod(shape) <= LARGEST_SMALL else "mlp"
