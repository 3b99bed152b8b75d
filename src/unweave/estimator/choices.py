"""Method, seeds and architecture of an `Unweaver`, from its parameters and the data."""

import math
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from unweave.errors import UnknownNameError
from unweave.methods import EVERY, METHODS, Method, find_method
from unweave.models.rows import InputError
from unweave.nets.sizes import MAX_SIDE, MIN_SIDE
from unweave.text import canonical_name, size_text

__all__ = ["architecture_for", "method_with", "seeds_from"]

MAX_SMALL_MLP_FEATURES, MAX_MLP_FEATURES = 256, 128 * 128 * 3
"""Largest row lengths for `small_mlp` and for `mlp`, which has 1,200 weights per value."""


def method_with(method: str | Method, strengths: Any) -> Method | str:
    """Return the method with its strengths, or its name if `uw.fit` chooses them."""
    if isinstance(method, Method):
        if strengths is not None:
            raise InputError(
                f"strengths cannot be combined with {method}, which defines its own; leave "
                "strengths out, or pass the method by name",
                subject="strengths",
                value=method,
            )
        return method
    name = canonical_name(str(method))
    kind = find_method(name)
    if name in EVERY and name not in METHODS:
        raise UnknownNameError("method", str(method), METHODS)
    if strengths is None:
        return name if name == "beta_vae" else kind()
    if not kind.strengths():
        raise InputError(
            f"{method} has no regularisation strength; leave strengths out",
            subject="strengths",
            value=method,
        )
    return kind(**{kind.strengths()[0]: np.atleast_1d(strengths).tolist()})


def seeds_from(count: int, random_state: Any) -> list[int]:
    """Return `count` seeds: 0, 1, 2, …, or sampled if there is a `random_state`."""
    if count < 1:
        raise InputError(f"seeds must be at least 1, got {count}", subject="seeds", value=count)
    if random_state is None:
        return list(range(count))
    sampled: list[int] = check_random_state(random_state).randint(2**31 - 1, size=count).tolist()
    return sampled


def architecture_for(shape: tuple[int, int, int]) -> str:
    """Return "conv" for images of supported sizes, otherwise dense layers."""
    height, width, _ = shape
    if min(height, width) >= MIN_SIDE and max(height, width) <= MAX_SIDE:
        return "conv"
    if math.prod(shape) > MAX_MLP_FEATURES and height == 1:
        raise InputError(
            f"rows of X must have at most {MAX_MLP_FEATURES:,} features, got "
            f"{math.prod(shape):,}; "
            "select features or reduce the dimension first",
            subject="X",
            value=shape,
        )
    if math.prod(shape) > MAX_MLP_FEATURES:
        raise InputError(
            f"images of {size_text(shape)} are too large for dense layers; resize them to "
            f"{MIN_SIDE} to {MAX_SIDE} pixels on each side",
            subject="X",
            value=shape,
        )
    return "small_mlp" if math.prod(shape) <= MAX_SMALL_MLP_FEATURES else "mlp"
