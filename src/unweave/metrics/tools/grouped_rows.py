"""Rows grouped by the value of one factor, or by the values of all factors but one."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unweave.metrics.base import MetricError, Table

__all__ = ["Groups", "families", "groups", "interventions", "siblings"]


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows of a table grouped by class, with a single sort.

    Args:
        classes: Class of every row, `[n]`, small integers.
    """

    classes: np.ndarray

    @cached_property
    def order(self) -> np.ndarray:
        """Row numbers sorted by class, `[n]`."""
        return np.argsort(self.classes, kind="stable")

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of rows per class."""
        return np.bincount(self.classes)

    @cached_property
    def starts(self) -> np.ndarray:
        """Position of each class in `order`."""
        return np.cumsum(self.counts) - self.counts

    def partners(self, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Sample, for each of the given rows, a row of the same class."""
        shared = self.classes[rows]
        offsets = generator.random(rows.shape) * self.counts[shared]
        return self.order[self.starts[shared] + offsets.astype(np.int64)]


def groups(table: Table, factor: int) -> Groups:
    """Group rows by the value of a factor; raises an error if most values occur only once."""
    classes = table.factors[:, factor]
    # NumPy sorts 16-bit integers by counting.
    grouped = Groups(classes.astype(np.uint16 if table.sizes[factor] <= 2**16 else np.int64))
    alone = int((grouped.counts == 1).sum())
    if alone > len(classes) / 2:
        raise MetricError(
            f"too few pairs of rows share a factor: {alone:,} of {len(classes):,} rows have a "
            f"unique value of factor {table.columns[factor]}; provide more rows or round the "
            f"factor",
            subject=f"factor {table.columns[factor]}",
            value=alone,
        )
    return grouped


def families(table: Table, factor: int) -> np.ndarray:
    """Number the combinations of the other factors' values, from 0 without gaps, `[n]`."""
    others = np.delete(table.factors, factor, 1)
    sizes = np.delete(table.sizes, factor)
    if np.prod(sizes.astype(float)) < 2**62:
        combined = np.zeros(len(table), np.int64)
        for column, size in zip(others.T, sizes, strict=True):
            combined = combined * size + column
        return np.unique(combined, return_inverse=True)[1]
    return np.unique(others, axis=0, return_inverse=True)[1].ravel()


def siblings(table: Table, factor: int) -> tuple[Groups, np.ndarray]:
    """Group rows that differ in one factor only, and return those in groups where it varies.

    Raises an error if these are fewer than half of all rows.
    """
    numbers = families(table, factor)
    grouped = Groups(numbers)
    values = table.factors[grouped.order, factor]
    lowest = np.minimum.reduceat(values, grouped.starts)
    highest = np.maximum.reduceat(values, grouped.starts)
    usable = np.flatnonzero((highest > lowest)[numbers])
    if len(usable) < len(table) / 2:
        raise MetricError(
            f"too few rows differ only in factor {table.columns[factor]}: {len(usable):,} of "
            f"{len(table):,} rows have such a counterpart; provide a full grid or more rows",
            subject=f"factor {table.columns[factor]}",
            value=len(usable),
        )
    return grouped, usable


def interventions(
    table: Table, factor: int, count: int, generator: np.random.Generator
) -> np.ndarray:
    """Sample rows, and find for each the rows with every value of one factor, all else equal.

    Returns:
        Row numbers `[count, values]`. Raises an error if fewer than `count` combinations of the
        other factors are complete, unless all are.
    """
    numbers, size = families(table, factor), int(table.sizes[factor])
    members = np.full((numbers.max() + 1, size), -1)
    order = generator.permutation(len(table))
    members[numbers[order], table.factors[order, factor]] = order
    complete = np.flatnonzero((members >= 0).all(1))
    if len(complete) < min(count, len(members)):
        raise MetricError(
            f"setting factor {table.columns[factor]} to each of its {size} values needs a row for "
            f"each, but only {len(complete):,} of {len(members):,} combinations of the other "
            f"factors have them all; provide a full grid",
            subject=f"factor {table.columns[factor]}",
            value=len(complete),
        )
    return members[generator.choice(complete, size=count)]
