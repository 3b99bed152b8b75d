"""Factors of variation: names, values, and conversion between indices and factors."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from unweave.errors import DataError, UnknownNameError
from unweave.io.arguments import renamed_attribute

__all__ = ["Array", "Factor", "Grid", "Labels", "as_integers"]

Array = Any
"""NumPy array or torch tensor; functions return the type that they are given."""


@dataclass(frozen=True, eq=False)
class Factor:
    """A factor of variation: a name and the value of each class.

    Args:
        name: Name as in the literature, e.g. `"posX"`.
        values: Value of each class, a number or text.
        categorical: Whether the classes are unordered (shape: yes; scale: no).
    """

    name: str
    values: Sequence[Any] | np.ndarray
    categorical: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def value_text(self, number: int) -> str:
        """Return the value of a class as text: `heart`, `0.5`."""
        value = self.values[number]
        return value if isinstance(value, str) else f"{value:.3g}"

    word = renamed_attribute("word", "value_text")

    def __str__(self) -> str:
        words = [str(v) if isinstance(v, str) else f"{v:.4g}" for v in self.values]
        shown = ", ".join(words) if len(words) <= 6 else f"{words[0]}, {words[1]} … {words[-1]}"
        return f"{self.name:<16}{len(words):>6}   {shown}"


@dataclass(frozen=True, eq=False)
class _Factors:
    """Named factors, the common part of `Grid` and `Labels`."""

    axes: tuple[Factor, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)

    def column(self, name: str) -> int:
        """Return the position of the factor called `name`."""
        if name not in self.names:
            raise UnknownNameError("factor", name, self.names)
        return self.names.index(name)

    def __str__(self) -> str:
        return "\n".join(f"  {axis}" for axis in self.axes)


@dataclass(frozen=True, eq=False)
class Grid(_Factors):
    """All combinations of the classes of some factors, with the last factor changing fastest.

    Args:
        axes: Factors, from slowest to fastest.

    Example:
        >>> grid = Grid((Factor("shape", ["square", "heart"]), Factor("scale", [0.5, 0.75, 1.0])))
        >>> grid.factors(np.array([0, 4]))
        array([[0, 0],
               [1, 1]])
        >>> grid.index(np.array([[1, 1]]))
        array([4])
    """

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Difference in index between two neighbouring classes of each factor."""
        return tuple(math.prod(self.sizes[k + 1 :]) for k in range(len(self.sizes)))

    def __len__(self) -> int:
        return math.prod(self.sizes)

    def factors(self, index: Array) -> Array:
        """Return the classes `[..., K]` of the images at indices `[...]`."""
        index = as_integers(index)
        if isinstance(index, np.ndarray) and np.any((index < 0) | (index >= len(self))):
            raise DataError(
                f"indices of this grid must be 0 … {len(self) - 1}, got "
                f"{index.min()} … {index.max()}",
                subject="index",
            )
        columns = [
            index // stride % size for stride, size in zip(self.strides, self.sizes, strict=True)
        ]
        return (
            torch.stack(columns, -1) if isinstance(index, torch.Tensor) else np.stack(columns, -1)
        )

    def index(self, factors: Array) -> Array:
        """Return the indices `[...]` of images with classes `[..., K]`, inverting `factors`."""
        factors = as_integers(factors)
        if factors.shape[-1:] != (len(self.axes),):
            raise DataError(
                f"factors must have {len(self.axes)} columns ({', '.join(self.names)}), "
                f"got shape {tuple(factors.shape)}",
                subject="factors",
                value=tuple(factors.shape),
            )
        if isinstance(factors, np.ndarray):
            for k, axis in enumerate(self.axes):
                self.classes(axis.name, np.unique(factors[..., k]))
        return sum(factors[..., k] * stride for k, stride in enumerate(self.strides))

    def classes(self, name: str, classes: int | Iterable[int]) -> list[int]:
        """Return the given class or classes of a factor as a sorted, checked list."""
        chosen = sorted({int(c) for c in np.atleast_1d(np.asarray(_as_lists(classes)))})
        size = self.sizes[self.column(name)]
        if chosen and not (chosen[0] >= 0 and chosen[-1] < size):
            raise DataError(
                f"classes of {name!r} must be 0 … {size - 1}, got {chosen}",
                subject=name,
                value=chosen,
            )
        return chosen

    def where(self, choice: Mapping[str, int | Iterable[int]]) -> np.ndarray:
        """Return a mask `[len(grid)]` of images whose named factors have one of the classes."""
        mask = np.ones(self.sizes, dtype=bool)
        for name, classes in choice.items():
            column = self.column(name)
            keep = np.isin(np.arange(self.sizes[column]), self.classes(name, classes))
            mask &= keep.reshape([-1 if k == column else 1 for k in range(len(self.sizes))])
        return mask.reshape(-1)


@dataclass(frozen=True, eq=False)
class Labels(_Factors):
    """Factors of each image, for images that do not form a grid.

    Args:
        axes: Factors.
        classes: Class of each factor for each image, `[N, K]`.
    """

    classes: np.ndarray

    def factors(self, index: Array) -> Array:
        """Return the classes `[..., K]` of the images at indices `[...]`."""
        if isinstance(index, torch.Tensor):
            return torch.as_tensor(self.classes, device=index.device)[index]
        return self.classes[as_integers(index)]


def _as_lists(classes: int | Iterable[int]) -> Any:
    return list(classes) if isinstance(classes, Iterable) else classes


def as_integers(values: Array) -> Array:
    """Return tensors unchanged and anything else as an int64 array; reject non-integers."""
    if isinstance(values, torch.Tensor):
        if values.is_floating_point():
            raise DataError(
                f"indices and classes must be integers, got {values.dtype}",
                subject="values",
                value=values.dtype,
            )
        return values
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise DataError(
            f"indices and classes must be integers, got {array.dtype}",
            subject="values",
            value=array.dtype,
        )
    return array.astype(np.int64, copy=False)
