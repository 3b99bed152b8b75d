"""Confidence intervals of scores, by resampling."""

from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.io.arrays import on_host
from unweave.metrics.base import Metric, MetricError, table

__all__ = ["Interval", "interval"]

PROTOCOL_ROWS = 15_000
BY_ROW = ("logvars", "images", "reconstructions")


class Interval(NamedTuple):
    """A score and the ends of its confidence interval."""

    score: float
    low: float
    high: float


def interval(
    metric: Metric | Callable[..., dict[str, float]],
    codes: Any,
    factors: Any = None,
    seed: int = 0,
    *,
    resamples: int = 50,
    level: float = 0.95,
    **options: Any,
) -> dict[str, Interval]:
    """Confidence intervals of all numbers of a metric.

        score ± z s,    s the standard deviation of the score over resamples

    A resample has rows drawn with replacement and a seed of its own, so that the interval covers
    both which rows were there and what the metric drew.

    Args:
        metric: One of `METRICS`, or any function `(codes, factors, seed, **options)`.
        codes: `[n, d]`.
        factors: `[n, K]`, or None for metrics of codes alone.
        seed: Of the score, and of the resampling.
        resamples: How often the metric is computed anew.
        level: The chance that the interval should cover.
        options: Of the metric; those with a row per image are resampled along.

    Returns:
        An interval for every number of the metric; the headline's is cut at its bounds.

    Notes:
        Of a full grid, or of more rows than any protocol uses, the metric draws its own rows, and
        only the seed changes. Otherwise the first two thirds of the rows, from which metrics
        learn, and the last third, on which they test, are resampled each for itself: no row that
        was learned is tested. The interval is about the score of so many rows; a bias that the
        metric has with so many stays.

    Example:
        >>> import unweave as uw
        >>> generator = np.random.default_rng(0)
        >>> factors = generator.integers(0, 4, (1000, 2))
        >>> codes = factors + generator.normal(0, 0.3, factors.shape)
        >>> found = interval(uw.metrics.METRICS["mig"], codes, factors)["mig"]
        >>> [round(number, 3) for number in found]
        [0.85, 0.833, 0.866]
    """
    if resamples < 2 or not 0 < level < 1:
        raise MetricError(
            f"an interval needs at least 2 resamples and a level between 0 and 1, but got "
            f"{resamples} and {level}"
        )
    score = metric(codes, factors, seed, **options)
    generator = numpy_rng(seed)
    resampled = []
    for number in range(resamples):
        rows = _resample(codes, factors, generator)
        values = (codes, factors) if rows is None else (_take(codes, rows), _take(factors, rows))
        along = {
            key: _take(value, rows) if rows is not None and key in BY_ROW else value
            for key, value in options.items()
        }
        resampled.append(metric(*values, seed + 1 + number, **along))
    reach = NormalDist().inv_cdf((1 + level) / 2)
    intervals = {}
    for name, value in score.items():
        half = reach * float(np.std([scores[name] for scores in resampled], ddof=1))
        low, high = (
            metric.bounds
            if isinstance(metric, Metric) and metric.name == name
            else (-np.inf, np.inf)
        )
        intervals[name] = Interval(value, max(value - half, low), min(value + half, high))
    return intervals


def _resample(codes: Any, factors: Any, generator: np.random.Generator) -> np.ndarray | None:
    """Rows drawn with replacement, or None where the metric itself draws from all rows."""
    count = len(codes)
    if count > PROTOCOL_ROWS or (factors is not None and table(codes, factors).is_grid):
        return None
    border = round(count * 2 / 3)
    learned = generator.integers(border, size=border)
    return np.concatenate([learned, generator.integers(border, count, size=count - border)])


def _take(values: Any, rows: np.ndarray) -> Any:
    return None if values is None else on_host(values)[rows]
