"""Factors of variation: names, values, and the arithmetic between index and factors."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from unweave.errors import DataError, UnknownNameError

__all__ = ["Array", "Factor", "Grid", "Labels", "whole_numbers"]

Array = Any
"""A NumPy array or a torch tensor; what goes in decides what comes out."""


@dataclass(frozen=True, eq=False)
class Factor:
    """One factor of variation: a name and the value that each of its classes stands for.

    Args:
        name: As in the literature, e.g. `"posX"`.
        values: One entry per class, numbers or names.
        categorical: Whether neighbouring classes have nothing in common (shape: yes; scale: no).
    """

    name: str
    values: Sequence[Any] | np.ndarray
    categorical: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def word(self, number: int) -> str:
        """What one of its classes is called: `heart`, `0.5`."""
        value = self.values[number]
        return value if isinstance(value, str) else f"{value:.3g}"

    def __str__(self) -> str:
        words = [str(v) if isinstance(v, str) else f"{v:.4g}" for v in self.values]
        shown = ", ".join(words) if len(words) <= 6 else f"{words[0]}, {words[1]} … {words[-1]}"
        return f"{self.name:<16}{len(words):>6}   {shown}"


@dataclass(frozen=True, eq=False)
class _Factors:
    """Some factors, known by their names."""

    axes: tuple[Factor, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)

    def column(self, name: str) -> int:
        """The position of the factor called `name`."""
        if name not in self.names:
            raise UnknownNameError("factor", name, self.names)
        return self.names.index(name)

    def __str__(self) -> str:
        return "\n".join(f"  {axis}" for axis in self.axes)


@dataclass(frozen=True, eq=False)
class Grid(_Factors):
    """Every combination of the classes of some factors, the last factor changing fastest.

    Args:
        axes: The factors, from slowest to fastest.

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
        """How far apart in the index two neighbouring classes of each factor are."""
        return tuple(math.prod(self.sizes[k + 1 :]) for k in range(len(self.sizes)))

    def __len__(self) -> int:
        return math.prod(self.sizes)

    def factors(self, index: Array) -> Array:
        """The classes `[..., K]` of the images numbered `[...]`."""
        index = whole_numbers(index)
        if isinstance(index, np.ndarray) and np.any((index < 0) | (index >= len(self))):
            raise DataError(f"an index is outside 0 … {len(self) - 1}, the images of this grid")
        columns = [
            index // stride % size for stride, size in zip(self.strides, self.sizes, strict=True)
        ]
        return (
            torch.stack(columns, -1) if isinstance(index, torch.Tensor) else np.stack(columns, -1)
        )

    def index(self, factors: Array) -> Array:
        """The numbers `[...]` of the images with classes `[..., K]`, the inverse of `factors`."""
        factors = whole_numbers(factors)
        if factors.shape[-1:] != (len(self.axes),):
            raise DataError(
                f"factors need {len(self.axes)} columns ({', '.join(self.names)}), "
                f"but their shape is {tuple(factors.shape)}"
            )
        if isinstance(factors, np.ndarray):
            for k, axis in enumerate(self.axes):
                self.classes(axis.name, np.unique(factors[..., k]))
        return sum(factors[..., k] * stride for k, stride in enumerate(self.strides))

    def classes(self, name: str, classes: int | Iterable[int]) -> list[int]:
        """The given class or classes of a factor as a list, checked, ascending."""
        chosen = sorted({int(c) for c in np.atleast_1d(np.asarray(_listed(classes)))})
        size = self.sizes[self.column(name)]
        if chosen and not (chosen[0] >= 0 and chosen[-1] < size):
            raise DataError(f"the classes of {name!r} are 0 … {size - 1}, but got {chosen}")
        return chosen

    def where(self, choice: Mapping[str, int | Iterable[int]]) -> np.ndarray:
        """A mask `[len(grid)]` of the images whose named factors have one of the given classes."""
        mask = np.ones(self.sizes, dtype=bool)
        for name, classes in choice.items():
            column = self.column(name)
            keep = np.isin(np.arange(self.sizes[column]), self.classes(name, classes))
            mask &= keep.reshape([-1 if k == column else 1 for k in range(len(self.sizes))])
        return mask.reshape(-1)


@dataclass(frozen=True, eq=False)
class Labels(_Factors):
    """Factors known image by image, where they do not form a grid.

    Args:
        axes: The factors.
        classes: `[N, K]`, the class of each factor for each image.
    """

    classes: np.ndarray

    def factors(self, index: Array) -> Array:
        """The classes `[..., K]` of the images numbered `[...]`."""
        if isinstance(index, torch.Tensor):
            return torch.as_tensor(self.classes, device=index.device)[index]
        return self.classes[whole_numbers(index)]


def _listed(classes: int | Iterable[int]) -> Any:
    return list(classes) if isinstance(classes, Iterable) else classes


def whole_numbers(values: Array) -> Array:
    """Tensors as they are, anything else as an int64 array; fractions are an error."""
    if isinstance(values, torch.Tensor):
        if values.is_floating_point():
            raise DataError(f"whole numbers were expected here, but got {values.dtype}")
        return values
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise DataError(f"whole numbers were expected here, but got {array.dtype}")
    return array.astype(np.int64, copy=False)
