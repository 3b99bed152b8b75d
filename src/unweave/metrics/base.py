"""What every metric shares: the table of codes and factors, the draws from it, and its description.

A metric is a pure function of arrays:

    name(codes, factors, seed=0, **options) -> dict[str, float]

with the headline score under the metric's own name. Shapes: n rows (images), d codes per row, K
factors per row; rows are either a sample of images or all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from unweave.errors import UnweaveError

__all__ = ["Metric", "MetricError", "Table", "table"]


class MetricError(UnweaveError):
    """Codes or factors that a metric cannot score."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """How a metric is described in tables, reports and on the command line.

    Args:
        name: Of the function, of its headline score, of its file.
        function: The metric.
        higher_is_better: None where neither is.
        bounds: Of the headline score.
        needs: `"codes"` alone; `"factors"` beside them; `"pairs"` of rows that share a factor.
        cost: Rough time for 10,000 rows and ten codes: `"seconds"` or `"minutes"`.
        reference: Where it was published.
        failure: Its known failure, in one line.
    """

    name: str
    function: Callable[..., dict[str, float]]
    higher_is_better: bool | None
    bounds: tuple[float, float]
    needs: Literal["codes", "factors", "pairs"]
    cost: Literal["seconds", "minutes"]
    reference: str
    failure: str

    def __call__(self, *args: Any, **options: Any) -> dict[str, float]:
        return self.function(*args, **options)


@dataclass(frozen=True, eq=False)
class Table:
    """Checked codes `[n, d]` and factor classes `[n, K]`, classes counted from 0 without gaps.

    Args:
        codes: Floats `[n, d]`, finite; float32 where they came so, since the edges of bins and so
            the last digits of scores depend on it, else float64.
        factors: int64 `[n, K]`: each factor's values replaced by their rank among those present.
    """

    codes: np.ndarray
    factors: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many values each factor takes, `[K]`."""
        return self.factors.max(0) + 1

    def draw(self, count: int, generator: np.random.Generator) -> "Table":
        """All rows as they are where at most `count` are given, else `count` of them, drawn."""
        if len(self) <= count:
            return self
        return self.rows(generator.integers(len(self), size=count))

    def split(
        self, train: int, test: int, generator: np.random.Generator
    ) -> tuple["Table", "Table"]:
        """Rows to learn from and rows to test on.

        Up to `train + test` rows are cut in their order, in the proportion of the two; more are
        drawn from.
        """
        if len(self) > train + test:
            drawn = self.draw(train + test, generator)
            return drawn.rows(slice(0, train)), drawn.rows(slice(train, None))
        border = round(len(self) * train / (train + test))
        return self.rows(slice(0, border)), self.rows(slice(border, None))

    def rows(self, chosen: Any) -> "Table":
        """The chosen rows; classes keep their numbers."""
        return Table(self.codes[chosen], self.factors[chosen])


def table(codes: Any, factors: Any) -> Table:
    """Check what a user gave and bring it into shape.

    Args:
        codes: `[n, d]` or `[n]`; NumPy, torch, pandas or lists.
        factors: `[n, K]` or `[n]`; any values, of which equal ones are one class.
    """
    codes, factors = check_codes(codes), _matrix(factors, "factors")
    if len(codes) != len(factors):
        raise MetricError(
            f"codes and factors must have the same rows, but got {len(codes):,} and "
            f"{len(factors):,}"
        )
    columns = [np.unique(column, return_inverse=True)[1] for column in factors.T]
    return Table(codes, np.stack(columns, 1).astype(np.int64))


def check_codes(codes: Any) -> np.ndarray:
    """Codes as finite floats `[n, d]`: float32 stays, all else becomes float64."""
    codes = _matrix(codes, "codes")
    return codes if codes.dtype == np.float32 else codes.astype(np.float64)


def _matrix(values: Any, what: str) -> np.ndarray:
    values = values.detach().cpu() if hasattr(values, "detach") else values
    array = np.asarray(values)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape:
        raise MetricError(f"{what} must be a table [rows, columns], but got {list(array.shape)}")
    if not np.issubdtype(array.dtype, np.number) and array.dtype != bool:
        raise MetricError(f"{what} must be numbers, but got {array.dtype}")
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise MetricError(f"{what} must be finite, but row {row}, column {column} is not")
    return array
