"""Rows that share a factor's value, found by sorting once: on a full grid or in a sample."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unweave.metrics.base import MetricError, Table

__all__ = ["Groups", "groups"]


@dataclass(frozen=True, eq=False)
class Groups:
    """The rows of a table, grouped by the value of one factor.

    Args:
        classes: The factor's class in every row, `[n]`.
        order: Row numbers sorted by class, `[n]`.
    """

    classes: np.ndarray
    order: np.ndarray

    @cached_property
    def counts(self) -> np.ndarray:
        """Rows per class."""
        return np.bincount(self.classes)

    @cached_property
    def starts(self) -> np.ndarray:
        """Where each class begins in `order`."""
        return np.cumsum(self.counts) - self.counts

    def partners(self, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """For every one of some rows, a row of the same class, each such row equally likely."""
        shared = self.classes[rows]
        offsets = generator.random(rows.shape) * self.counts[shared]
        return self.order[self.starts[shared] + offsets.astype(np.int64)]


def groups(table: Table, factor: int) -> Groups:
    """Group the rows of a table by one factor.

    Raises:
        MetricError: Where most rows share their value with no other row.
    """
    classes = table.factors[:, factor]
    narrow = classes.astype(np.uint16 if table.sizes[factor] <= 2**16 else np.int64)
    # NumPy sorts 16-bit integers by counting.
    grouped = Groups(narrow, np.argsort(narrow, kind="stable"))
    alone = int((grouped.counts == 1).sum())
    if alone > len(classes) / 2:
        raise MetricError(
            f"pairs that share a factor are too few: of {len(classes):,} rows, {alone:,} share "
            f"their value of factor {table.columns[factor]} with no other; give more rows, or "
            f"round that factor"
        )
    return grouped
