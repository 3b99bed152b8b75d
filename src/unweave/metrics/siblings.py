"""Rows that agree in all factors but one, found by sorting once: on a full grid or in a sample."""

import numpy as np

from unweave.metrics.base import MetricError, Table
from unweave.metrics.groups import Groups

__all__ = ["families", "interventions", "siblings"]


def families(table: Table, factor: int) -> np.ndarray:
    """A number for each combination of the other factors' values, from 0 without gaps, `[n]`."""
    others = np.delete(table.factors, factor, 1)
    sizes = np.delete(table.sizes, factor)
    if np.prod(sizes.astype(float)) < 2**62:
        combined = np.zeros(len(table), np.int64)
        for column, size in zip(others.T, sizes, strict=True):
            combined = combined * size + column
        return np.unique(combined, return_inverse=True)[1]
    return np.unique(others, axis=0, return_inverse=True)[1].ravel()


def siblings(table: Table, factor: int) -> tuple[Groups, np.ndarray]:
    """Group rows that differ in one factor only.

    Returns:
        The groups, and the rows in whose group the factor takes several values.

    Raises:
        MetricError: Where those are fewer than half of all rows.
    """
    numbers = families(table, factor)
    grouped = Groups(numbers, np.argsort(numbers, kind="stable"))
    values = table.factors[grouped.order, factor]
    lowest = np.minimum.reduceat(values, grouped.starts)
    highest = np.maximum.reduceat(values, grouped.starts)
    usable = np.flatnonzero((highest > lowest)[numbers])
    if len(usable) < len(table) / 2:
        raise MetricError(
            f"rows that differ in one factor only are too few: of {len(table):,} rows, "
            f"{len(usable):,} have another that differs in factor {table.columns[factor]} alone; "
            f"give a full grid, or more rows"
        )
    return grouped, usable


def interventions(
    table: Table, factor: int, count: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw rows, and for each of them the rows that it becomes with every value of one factor.

    Args:
        table: A full grid, or a sample that holds enough complete families.
        factor: The factor to set.
        count: How many rows to draw.
        generator: Draws the families, and one row of several with the same values.

    Returns:
        Row numbers `[count, values]`.

    Raises:
        MetricError: Where fewer than `count` families are complete, and not all of them.
    """
    numbers, size = families(table, factor), int(table.sizes[factor])
    members = np.full((numbers.max() + 1, size), -1)
    order = generator.permutation(len(table))
    members[numbers[order], table.factors[order, factor]] = order
    complete = np.flatnonzero((members >= 0).all(1))
    if len(complete) < min(count, len(members)):
        raise MetricError(
            f"setting factor {table.columns[factor]} to each of its {size} values needs rows for "
            f"all of them, but only {len(complete):,} of {len(members):,} combinations of the "
            f"other factors have them; give a full grid"
        )
    return members[generator.choice(complete, size=count)]
