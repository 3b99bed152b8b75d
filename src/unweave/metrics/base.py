"""What every metric shares: its description, the table of codes and factors, draws from it.

A metric is a pure function of arrays:

    name(codes, factors, seed=0, **options) -> dict[str, float]

with the headline score under the metric's own name. Shapes: n rows (images), d codes per row, K
factors per row; rows are either a sample of images or all of them.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from unweave.errors import UnweaveError
from unweave.io.arguments import check_seed, numpy_rng
from unweave.io.arrays import on_host
from unweave.text import shown

__all__ = ["Metric", "MetricError", "Table", "check_codes", "table", "train_and_test"]


LARGEST = 1e15
"""Of codes: their squares can be added in float32, and no sound model comes near it."""


class MetricError(UnweaveError):
    """Codes or factors that a metric cannot score."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """How a metric is described in tables, reports and on the command line.

    Args:
        name: Of the function, of its headline score, of its file.
        label: Display name; by default `name` without underscores.
        explanation: What it measures, in one or two sentences; by default the first line of the
            function's docstring.
        function: The metric.
        higher_is_better: None where neither is.
        bounds: Of the headline score.
        needs: `"codes"` alone; `"factors"` beside them; `"pairs"` of rows that share a factor;
            `"posterior"`: codes and their log-variances, as the option `logvars`; `"densities"`:
            factors and the posterior; `"images"`: the posterior, the images and their
            reconstructions, as options of these names; `"reconstructions"`: only the last two.
        cost: Rough time for 10,000 rows and ten codes: `"seconds"`, `"minutes"`, or `"hours"`,
            without a GPU; those of hours are only computed by name.
        reference: Where it was published.
        failure: Its known failure, in one line.
    """

    name: str
    function: Callable[..., dict[str, float]]
    higher_is_better: bool | None
    bounds: tuple[float, float]
    needs: Literal[
        "codes", "factors", "pairs", "posterior", "densities", "images", "reconstructions"
    ]
    cost: Literal["seconds", "minutes", "hours"]
    reference: str
    failure: str
    label: str = ""
    explanation: str = ""

    def __post_init__(self) -> None:
        said = (self.function.__doc__ or "").strip().splitlines()
        object.__setattr__(self, "label", self.label or self.name.replace("_", " "))
        object.__setattr__(self, "explanation", self.explanation or " ".join(said[:1]))

    @classmethod
    def of_function(cls, function: Callable[..., dict[str, float]]) -> "Metric":
        """A metric of which only its function is known.

        Args:
            function: `(codes, factors, seed, **options)`; it needs factors unless these have a
                default.
        """
        factors = inspect.signature(function).parameters.get("factors")
        optional = factors is not None and factors.default is not inspect.Parameter.empty
        return cls(
            name=function.__name__,
            function=function,
            higher_is_better=None,
            bounds=(-math.inf, math.inf),
            needs="codes" if optional else "factors",
            cost="seconds",
            reference="",
            failure="",
        )

    def __call__(
        self, codes: Any, factors: Any = None, seed: int = 0, **options: Any
    ) -> dict[str, float]:
        scores = self.function(codes, factors, check_seed(seed), **options)
        if not isinstance(scores, dict) or self.name not in scores:
            raise MetricError(
                f"the function of {self.name} must return a dictionary with a number under "
                f"{self.name!r}, but got {shown(scores)}"
            )
        return scores

    @property
    def of_posteriors(self) -> bool:
        """Whether it is of posteriors themselves, so that sampled codes are no other question."""
        return self.needs in ("posterior", "densities")

    @property
    def of_images(self) -> bool:
        """Whether it looks at reconstructions, so that the model itself is needed."""
        return self.needs in ("images", "reconstructions")

    @property
    def takes(self) -> frozenset[str]:
        """The names of the function's arguments."""
        return frozenset(inspect.signature(self.function).parameters)


@dataclass(frozen=True, eq=False)
class Table:
    """Checked codes `[n, d]` and factor classes `[n, K]`, classes counted from 0 without gaps.

    Args:
        codes: Floats `[n, d]`, finite; float32 where they came so, since the edges of bins and so
            the last digits of scores depend on it, else float64.
        factors: int64 `[n, K]`: each factor's values replaced by their rank among those present.
        columns: Which of the given factors these are, `[K]`; factors with one value are left out.
    """

    codes: np.ndarray
    factors: np.ndarray
    columns: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many values each factor takes, `[K]`."""
        return self.factors.max(0) + 1

    @cached_property
    def is_grid(self) -> bool:
        """Whether the rows are every combination of the factors' values, each once."""
        if len(self) != np.prod(self.sizes.astype(float)):
            return False
        index = np.ravel_multi_index(tuple(self.factors.T), tuple(self.sizes))
        return bool((np.bincount(index) == 1).all())

    def draw(self, count: int, generator: np.random.Generator) -> "Table":
        """All rows as they are where at most `count` are given, else `count` of them, drawn."""
        chosen = choose_rows(len(self), count, generator)
        return self if chosen is None else self.rows(chosen)

    def split(
        self, train: int, test: int, generator: np.random.Generator
    ) -> tuple["Table", "Table"]:
        """Rows to learn from and rows to test on.

        Up to `train + test` rows are cut in their order, in the proportion of the two; more are
        drawn from, and so is a full grid of any size. Rows sorted such that a cut would test
        values that were never learned are shuffled first.
        """
        if len(self) > train + test or self.is_grid:
            drawn = self.rows(generator.integers(len(self), size=train + test))
            return drawn.rows(slice(0, train)), drawn.rows(slice(train, None))
        border = round(len(self) * train / (train + test))
        if border in (0, len(self)):
            raise MetricError(
                f"a part to learn from and a part to test on need more rows, but got {len(self)}"
            )
        learned, tested = self.rows(slice(0, border)), self.rows(slice(border, None))
        if not learned.covers(tested):
            order = generator.permutation(len(self))
            return self.rows(order[:border]), self.rows(order[border:])
        return learned, tested

    def covers(self, other: "Table") -> bool:
        """Whether every value of every factor in the other table is also in this one."""
        return all(
            np.isin(np.unique(asked), known).all()
            for asked, known in zip(other.factors.T, self.factors.T, strict=True)
        )

    def rows(self, chosen: Any) -> "Table":
        """The chosen rows; classes keep their numbers."""
        return Table(self.codes[chosen], self.factors[chosen], self.columns)


def table(codes: Any, factors: Any) -> Table:
    """Check what a user gave and bring it into shape.

    Args:
        codes: `[n, d]` or `[n]`; NumPy, torch, pandas or lists.
        factors: `[n, K]` or `[n]`; any values, of which equal ones are one class. Factors with
            one value are left out: there is nothing to find.
    """
    codes, factors = check_codes(codes), _matrix(factors, "factors")
    check_rows(codes, factors)
    ranked = [_ranks(column) for column in np.ascontiguousarray(factors.T)]
    varying = tuple(k for k, ranks in enumerate(ranked) if ranks.any())
    if not varying:
        raise MetricError("factors must vary, but each of them has the same value in every row")
    return Table(codes, np.stack([ranked[k] for k in varying], 1), varying)


def train_and_test(
    codes: Any,
    factors: Any,
    test_codes: Any,
    test_factors: Any,
    generator: np.random.Generator,
    train: int = 10_000,
    test: int = 5_000,
) -> tuple[Table, Table]:
    """Rows to learn from and rows to test on, cut from one table or given as two.

    Args:
        codes: As for `table`.
        factors: As for `table`.
        test_codes: None to cut one table, or the codes of the rows to test on.
        test_factors: Their factors.
        generator: Draws rows where there are more than the protocol's.
        train: The protocol's number of rows to learn from.
        test: The protocol's number of rows to test on.
    """
    if (test_codes is None) != (test_factors is None):
        raise MetricError("test_codes and test_factors must be given together")
    if test_codes is None:
        return table(codes, factors).split(train, test, generator)
    parts = (check_codes(codes), check_codes(test_codes))
    labels = (_matrix(factors, "factors"), _matrix(test_factors, "test_factors"))
    for part, label in zip(parts, labels, strict=True):
        check_rows(part, label)
    if parts[0].shape[1] != parts[1].shape[1] or labels[0].shape[1] != labels[1].shape[1]:
        raise MetricError(
            "test rows must have the same codes and factors as the rows to learn from"
        )
    both = table(np.concatenate(parts), np.concatenate(labels))
    border = len(parts[0])
    return (
        both.rows(slice(0, border)).draw(train, generator),
        both.rows(slice(border, None)).draw(test, generator),
    )


def choose_rows(available: int, count: int, generator: np.random.Generator) -> np.ndarray | None:
    """None, for all rows, where at most `count` are there, else the numbers of `count`, drawn."""
    return None if available <= count else generator.integers(available, size=count)


def draw_codes(codes: Any, count: int, seed: int) -> np.ndarray:
    """Checked codes for metrics that need no factors, drawn as `Table.draw` does."""
    checked = check_codes(codes)
    chosen = choose_rows(len(checked), count, numpy_rng(seed))
    return checked if chosen is None else checked[chosen]


def check_codes(codes: Any, what: str = "codes") -> np.ndarray:
    """Codes as floats `[n, d]` that can be squared and added: float32 stays, else float64."""
    return _floats(_matrix(codes, what), what)


def check_factors(factors: Any) -> np.ndarray:
    """Factors as finite floats `[n, K]`, for metrics that read their values and not classes."""
    return _floats(_matrix(factors, "factors").astype(np.float64), "factors")


def check_rows(codes: np.ndarray, factors: np.ndarray) -> None:
    """Refuse tables that are not of as many rows."""
    if len(codes) != len(factors):
        raise MetricError(
            f"codes and factors must have the same rows, but got {len(codes):,} and "
            f"{len(factors):,}"
        )


def check_logvars(logvars: Any, codes: np.ndarray) -> np.ndarray:
    """Log-variances as finite floats, one for each of the codes `[n, d]`."""
    logvars = check_codes(logvars, "logvars")
    if logvars.shape != codes.shape:
        raise MetricError(
            f"codes and logvars must have the same shape, but got {list(codes.shape)} and "
            f"{list(logvars.shape)}"
        )
    return logvars


def standardised(columns: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1; a constant one becomes zeros."""
    constant = np.ptp(columns, axis=0) == 0
    centred = np.where(constant, 0.0, columns - columns.mean(0))
    return centred / np.where(constant, 1.0, columns.std(0))


def _floats(array: np.ndarray, what: str) -> np.ndarray:
    """Floats of a size that arithmetic is made for; those whose squares vanish become 0."""
    largest = max(-float(array.min()), float(array.max()))
    if largest > LARGEST:
        raise MetricError(
            f"{what} must be from -{LARGEST:g} to {LARGEST:g}, but got {largest:.3g}; rescale them"
        )
    floats = array if array.dtype == np.float32 else array.astype(np.float64)
    vanishing = (floats != 0) & (abs(floats) < np.sqrt(np.finfo(floats.dtype).tiny))
    return np.where(vanishing, floats.dtype.type(0), floats) if vanishing.any() else floats


def _matrix(values: Any, what: str) -> np.ndarray:
    try:
        array = on_host(values)
    except ValueError as error:
        raise MetricError(f"{what} must be a table [rows, columns], but {error}") from error
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape:
        raise MetricError(f"{what} must be a table [rows, columns], but got {list(array.shape)}")
    if array.dtype.kind not in "biuf":
        raise MetricError(f"{what} must be numbers, but got {array.dtype}")
    if array.dtype.kind not in "biu" and not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise MetricError(f"{what} must be finite, but row {row}, column {column} is not")
    return array


def _ranks(column: np.ndarray) -> np.ndarray:
    """Each value's rank among the values present, int64."""
    low, high = float(column.min()), float(column.max())
    whole = column.dtype.kind in "biu" or (column == np.rint(column)).all()
    if not whole or max(-low, high) > 2**53 or high - low > 2 * len(column):
        return np.unique(column, return_inverse=True)[1]
    # Small whole numbers, as factors mostly are: counting is many times faster than sorting.
    shifted = column.astype(np.int64) - int(low)
    present = np.bincount(shifted) > 0
    return shifted if present.all() else (np.cumsum(present) - 1)[shifted]
