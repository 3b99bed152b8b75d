"""Confidence intervals of scores by resampling."""

from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.io.arrays import on_host
from unweave.metrics.base import Metric, MetricError, table

__all__ = ["Interval", "interval"]

PROTOCOL_ROWS = 15_000
BY_ROW = ("logvars", "images", "reconstructions", "factorised")


class Interval(NamedTuple):
    """Score with the ends of its confidence interval."""

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
    """Compute confidence intervals for all scores of a metric.

        score ± z s,    where s is the standard deviation of the score over resamples

    Each resample has rows drawn with replacement and its own seed, so the interval covers both
    the choice of rows and the randomness of the metric.

    Args:
        metric: An entry of `METRICS`, or any function `(codes, factors, seed, **options)`.
        codes: Codes `[n, d]`.
        factors: Factors `[n, K]`, or None for metrics that need only codes.
        seed: Random seed of the score and of the resampling.
        resamples: Number of resamples (default 50).
        level: Confidence level (default 0.95).
        options: Options of the metric; those with a row per image are resampled too.

    Returns:
        An interval for every score of the metric. That of the headline score is clipped to its
        bounds.

    Notes:
        If the metric samples its own rows (from a full grid, or from more rows than any protocol
        uses), resamples differ only in their seed. Otherwise the first two thirds of the rows,
        which metrics use for training, and the last third, used for testing, are resampled
        separately, so that no training row is tested. The interval describes the score for this
        number of rows, and includes any bias that the metric has at this size.

    Example:
        >>> import unweave as uw
        >>> generator = np.random.default_rng(0)
        >>> factors = generator.integers(0, 4, (1000, 2))
        >>> codes = factors + generator.normal(0, 0.3, factors.shape)
        >>> found = interval(uw.metrics.METRICS["mig"], codes, factors)["mig"]
        >>> [round(number, 3) for number in found]
        [0.85, 0.833, 0.866]
    """
    if resamples < 2:
        raise MetricError.expected("resamples", "be at least 2", resamples)
    if not 0 < level < 1:
        raise MetricError.expected("level", "be between 0 and 1", level)
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
    """Return rows drawn with replacement, or None if the metric samples from all rows itself."""
    count = len(codes)
    if count > PROTOCOL_ROWS or (factors is not None and table(codes, factors).is_grid):
        return None
    border = round(count * 2 / 3)
    train_rows = generator.integers(border, size=border)
    return np.concatenate([train_rows, generator.integers(border, count, size=count - border)])


def _take(values: Any, rows: np.ndarray) -> Any:
    return None if values is None else on_host(values)[rows]
