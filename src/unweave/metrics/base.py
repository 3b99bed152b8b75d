"""Shared parts of all metrics: description, input checks, and sampling of rows.

A metric is a pure function of arrays:

    name(codes, factors, seed=0, **options) -> dict[str, float]

which includes the headline score under the metric's own name. Shapes: n rows (images), d codes per
row, K factors per row. The rows are either a sample of the images or all of them.
"""

import inspect
import math
import re
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

PROTOCOL_ROWS = 10_000
"""Number of rows that most protocols sample if there are more."""

FIRST_REFERENCE = re.compile(r"References:\s+(.+?)(?=;|\.?\s*\n\s*\n|\.?\s*\Z)", re.DOTALL)
"""Pattern for the first reference in a docstring."""

LARGEST = 1e15
"""Largest absolute code: its square does not overflow float32, and usable models stay below it."""


class MetricError(UnweaveError):
    """Raised if a metric cannot score the given codes or factors."""

    @classmethod
    def expected(cls, subject: str, wanted: str, value: object) -> "MetricError":
        """Return an error for an invalid argument: `expected("removed", "be at least 1", 0)`."""
        return cls(f"{subject} must {wanted}, got {value}", subject=subject, value=value)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Description of a metric for tables, reports and the command line.

    Args:
        function: The metric function.
        failure: Known failure of the metric, in one line.
        reference: Publication (default: the first reference in the function's docstring).
        name: Name of the metric and of its headline score (default: name of the function).
        label: Display name (default: `name` without underscores).
        explanation: What the metric measures, in one or two sentences (default: the first line of
            the function's docstring).
        higher_is_better: Whether higher scores are better (default True); None if neither is.
        bounds: Range of the headline score (default 0 to 1).
        needs: Required inputs. `"codes"`: only codes; `"factors"` (default): codes and factors;
            `"pairs"`: factors, and rows that share a factor; `"posterior"`: codes and their
            log-variances (option `logvars`); `"densities"`: factors and the posterior; `"images"`:
            the posterior and the options `images` and `reconstructions`; `"reconstructions"`: only
            these two options; `"decodes"`: the options `reconstructions` and `factorised`, decoded
            codes with independent latents.
        cost: Approximate time for 10,000 rows and ten codes without a GPU: `"seconds"` (default),
            `"minutes"` or `"hours"`. Metrics that take hours are computed only if named.
    """

    function: Callable[..., dict[str, float]]
    failure: str
    reference: str = ""
    name: str = ""
    label: str = ""
    explanation: str = ""
    higher_is_better: bool | None = True
    bounds: tuple[float, float] = (0.0, 1.0)
    needs: Literal[
        "codes",
        "factors",
        "pairs",
        "posterior",
        "densities",
        "images",
        "reconstructions",
        "decodes",
    ] = "factors"
    cost: Literal["seconds", "minutes", "hours"] = "seconds"

    def __post_init__(self) -> None:
        documented = self.function.__doc__ or ""
        summary = documented.strip().splitlines()
        found = FIRST_REFERENCE.search(documented)
        reference = " ".join(found[1].split()) if found else ""
        object.__setattr__(self, "reference", self.reference or reference)
        object.__setattr__(self, "name", self.name or self.function.__name__)
        object.__setattr__(self, "label", self.label or self.name.replace("_", " "))
        object.__setattr__(self, "explanation", self.explanation or " ".join(summary[:1]))

    @classmethod
    def of_function(cls, function: Callable[..., dict[str, float]]) -> "Metric":
        """Return a `Metric` for a plain function.

        Args:
            function: Function `(codes, factors, seed, **options)`. Factors are required unless
                that argument has a default.
        """
        factors = inspect.signature(function).parameters.get("factors")
        optional = factors is not None and factors.default is not inspect.Parameter.empty
        return cls(
            function=function,
            failure="",
            higher_is_better=None,
            bounds=(-math.inf, math.inf),
            needs="codes" if optional else "factors",
        )

    def __call__(
        self, codes: Any, factors: Any = None, seed: int = 0, **options: Any
    ) -> dict[str, float]:
        scores = self.function(codes, factors, check_seed(seed), **options)
        if not isinstance(scores, dict) or self.name not in scores:
            raise MetricError(
                f"the function of metric {self.name} must return a dictionary with the key "
                f"{self.name!r}, got {shown(scores)}",
                subject=self.name,
                value=scores,
            )
        return scores

    @property
    def of_posteriors(self) -> bool:
        """Whether the metric uses whole posteriors, so that sampling codes makes no difference."""
        return self.needs in ("posterior", "densities")

    @property
    def of_images(self) -> bool:
        """Whether the metric needs reconstructions, and therefore the model itself."""
        return self.needs in ("images", "reconstructions", "decodes")

    @property
    def takes(self) -> frozenset[str]:
        """Names of the function's arguments."""
        return frozenset(inspect.signature(self.function).parameters)


@dataclass(frozen=True, eq=False)
class Table:
    """Validated codes `[n, d]` and factor classes `[n, K]`, numbered from 0 without gaps.

    Args:
        codes: Finite floats `[n, d]`. float32 codes stay float32, because bin edges and therefore
            the last digits of scores depend on the precision; others become float64.
        factors: int64 `[n, K]`, with each value replaced by its rank among the values present.
        columns: Original column of each factor, `[K]`. Constant factors are dropped.
    """

    codes: np.ndarray
    factors: np.ndarray
    columns: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of values of each factor, `[K]`."""
        return self.factors.max(0) + 1

    @cached_property
    def is_grid(self) -> bool:
        """Whether the rows contain every combination of factor values exactly once."""
        if len(self) != np.prod(self.sizes.astype(float)):
            return False
        index = np.ravel_multi_index(tuple(self.factors.T), tuple(self.sizes))
        return bool((np.bincount(index) == 1).all())

    def draw(self, generator: np.random.Generator, count: int = PROTOCOL_ROWS) -> "Table":
        """Return `count` sampled rows, or all rows if there are no more than that."""
        return self.rows(choose_rows(len(self), generator, count))

    def split(
        self, train: int, test: int, generator: np.random.Generator
    ) -> tuple["Table", "Table"]:
        """Split into training and test rows.

        Up to `train + test` rows are split in order, in proportion to the two numbers. Rows are
        sampled instead if there are more, or if they form a full grid. If a split in order would
        test values that are missing from the training rows, the rows are shuffled first.
        """
        if len(self) > train + test or self.is_grid:
            sampled = self.rows(generator.integers(len(self), size=train + test))
            return sampled.rows(slice(0, train)), sampled.rows(slice(train, None))
        border = round(len(self) * train / (train + test))
        if border in (0, len(self)):
            wanted = "have enough rows for a training and a test part"
            raise MetricError.expected("codes", wanted, len(self))
        train_rows, test_rows = self.rows(slice(0, border)), self.rows(slice(border, None))
        if not train_rows.covers(test_rows):
            order = generator.permutation(len(self))
            return self.rows(order[:border]), self.rows(order[border:])
        return train_rows, test_rows

    def covers(self, other: "Table") -> bool:
        """Whether this table contains every factor value of the other table."""
        return all(
            np.isin(np.unique(other_values), values).all()
            for other_values, values in zip(other.factors.T, self.factors.T, strict=True)
        )

    def rows(self, chosen: Any) -> "Table":
        """Return the chosen rows; class numbers do not change."""
        return Table(self.codes[chosen], self.factors[chosen], self.columns)


def table(codes: Any, factors: Any) -> Table:
    """Validate codes and factors and return them as a `Table`.

    Args:
        codes: `[n, d]` or `[n]`; NumPy, torch, pandas or lists.
        factors: `[n, K]` or `[n]` with arbitrary numbers; equal numbers form a class. Constant
            factors are dropped.
    """
    codes, factors = check_codes(codes), _matrix(factors, "factors")
    check_rows(codes, factors=factors)
    ranked = [_ranks(column) for column in np.ascontiguousarray(factors.T)]
    varying = tuple(k for k, ranks in enumerate(ranked) if ranks.any())
    if not varying:
        raise MetricError(
            "factors must vary, but all of them are constant",
            subject="factors",
        )
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
    """Return training and test rows, split from one table or given as two.

    Args:
        codes: As for `table`.
        factors: As for `table`.
        test_codes: Codes of the test rows, or None to split one table.
        test_factors: Factors of the test rows.
        generator: Random generator for sampling rows.
        train: Largest number of training rows.
        test: Largest number of test rows.
    """
    if (test_codes is None) != (test_factors is None):
        raise MetricError(
            "test_codes and test_factors must be given together; pass both or neither",
            subject="test_codes" if test_codes is None else "test_factors",
        )
    if test_codes is None:
        return table(codes, factors).split(train, test, generator)
    parts = (check_codes(codes), check_codes(test_codes, "test_codes"))
    labels = (_matrix(factors, "factors"), _matrix(test_factors, "test_factors"))
    check_rows(parts[0], factors=labels[0])
    check_rows(parts[1], test_factors=labels[1])
    for name, (train_rows, test_rows) in {"test_codes": parts, "test_factors": labels}.items():
        if train_rows.shape[1] != test_rows.shape[1]:
            wanted = f"have {train_rows.shape[1]} columns like the training rows"
            raise MetricError.expected(name, wanted, test_rows.shape[1])
    both = table(np.concatenate(parts), np.concatenate(labels))
    border = len(parts[0])
    return (
        both.rows(slice(border)).draw(generator, train),
        both.rows(slice(border, None)).draw(generator, test),
    )


def choose_rows(
    available: int, generator: np.random.Generator, count: int = PROTOCOL_ROWS
) -> np.ndarray | slice:
    """Return the numbers of `count` sampled rows, or a slice of all if there are no more."""
    return slice(None) if available <= count else generator.integers(available, size=count)


def draw_codes(codes: Any, seed: int) -> np.ndarray:
    """Validate codes for metrics without factors, and sample rows as `Table.draw` does."""
    checked = check_codes(codes)
    return checked[choose_rows(len(checked), numpy_rng(seed))]


def check_codes(codes: Any, what: str = "codes") -> np.ndarray:
    """Return codes as finite floats `[n, d]`, float32 if they were float32, else float64."""
    return _floats(_matrix(codes, what), what)


def check_factors(factors: Any) -> np.ndarray:
    """Return factors as finite floats `[n, K]`, for metrics that use their values, not classes."""
    return _floats(_matrix(factors, "factors").astype(np.float64), "factors")


def check_given(metric: str, **options: Any) -> None:
    """Raise an error if a required option of a metric is missing."""
    missing = [name for name, value in options.items() if value is None]
    if missing:
        raise MetricError(
            f"{metric} requires {' and '.join(options)}, but {missing[0]} is missing",
            subject=missing[0],
        )


def check_rows(codes: Any, **others: Any) -> None:
    """Raise an error if a table does not have as many rows as the codes."""
    for name, table in others.items():
        if len(table) != len(codes):
            wanted = f"have as many rows as codes ({len(codes)})"
            raise MetricError.expected(name, wanted, len(table))


def check_logvars(logvars: Any, codes: np.ndarray) -> np.ndarray:
    """Return log-variances as finite floats of the same shape as the codes, `[n, d]`."""
    logvars = check_codes(logvars, "logvars")
    if logvars.shape != codes.shape:
        wanted = f"have the shape of the codes {list(codes.shape)}"
        raise MetricError.expected("logvars", wanted, list(logvars.shape))
    return logvars


def standardised(columns: np.ndarray) -> np.ndarray:
    """Return columns scaled to mean 0 and variance 1; constant columns become zeros."""
    constant = np.ptp(columns, axis=0) == 0
    centred = np.where(constant, 0.0, columns - columns.mean(0))
    return centred / np.where(constant, 1.0, columns.std(0))


def _floats(array: np.ndarray, what: str) -> np.ndarray:
    """Return floats; raise an error if they are too large, set to 0 if their squares underflow."""
    largest = max(-float(array.min()), float(array.max()))
    if largest > LARGEST:
        raise MetricError.expected(what, f"be rescaled to at most ±{LARGEST:g}", largest)
    floats = array if array.dtype == np.float32 else array.astype(np.float64)
    vanishing = (floats != 0) & (abs(floats) < np.sqrt(np.finfo(floats.dtype).tiny))
    return np.where(vanishing, floats.dtype.type(0), floats) if vanishing.any() else floats


def _matrix(values: Any, what: str) -> np.ndarray:
    try:
        array = on_host(values)
    except ValueError as error:
        raise MetricError(
            f"{what} must be a table [rows, columns]: {error}", subject=what
        ) from error
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape:
        raise MetricError.expected(what, "be a table [rows, columns]", list(array.shape))
    if array.dtype.kind not in "biuf":
        raise MetricError.expected(what, "be numeric", array.dtype)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row, column = place = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise MetricError(
            f"{what} must be finite, but row {row}, column {column} is NaN or infinite",
            subject=what,
            value=place,
        )
    return array


def _ranks(column: np.ndarray) -> np.ndarray:
    """Return the rank of each value among the values present, int64."""
    low, high = float(column.min()), float(column.max())
    whole = column.dtype.kind in "biu" or (column == np.rint(column)).all()
    if not whole or max(-low, high) > 2**53 or high - low > 2 * len(column):
        return np.unique(column, return_inverse=True)[1]
    # For small whole numbers, the usual case, counting is many times faster than sorting.
    shifted = column.astype(np.int64) - int(low)
    present = np.bincount(shifted) > 0
    return shifted if present.all() else (np.cumsum(present) - 1)[shifted]
