"""Selection of the metrics to compute."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from unweave.errors import UnknownNameError, UnweaveError
from unweave.io.extensions import is_reference
from unweave.metrics import CLASSIC, METRICS, Metric, find_metric, known_metric
from unweave.text import canonical_name, shown

__all__ = ["Choice", "choose", "needs_factors"]

Choice: TypeAlias = str | Metric | Callable[..., dict[str, float]]
"""A metric or a family of metrics: a name, a `Metric`, or a function of arrays."""

FAMILIES = {
    "classic": CLASSIC,
    "all": tuple(name for name, metric in METRICS.items() if metric.cost != "hours"),
}


def choose(metrics: Choice | Iterable[Choice]) -> list[Metric]:
    """Return the chosen metrics without duplicates.

    Args:
        metrics: `"classic"`, `"all"` (except `fid`, which is slow), the name of a metric
            (`factor-vae` is `factor_vae`), `package.module:NAME` of a custom metric, a `Metric`,
            a function of arrays, or several of these.
    """
    given: Any = metrics
    single = isinstance(given, str | Metric) or callable(given)
    chosen: dict[str, Metric] = {}
    for one in [given] if single else given:
        for metric in _chosen(one):
            if chosen.setdefault(metric.name, metric) != metric:
                raise UnweaveError(
                    f"metric names must be unique, got {shown(metric.name)} twice",
                    subject="metrics",
                    value=metric.name,
                )
    if not chosen:
        raise UnweaveError("metrics must name at least one metric, got none", subject="metrics")
    return list(chosen.values())


def _chosen(one: Choice) -> list[Metric]:
    if isinstance(one, Metric):
        return [one]
    if callable(one):
        return [Metric.of_function(one)]
    if not isinstance(one, str):
        raise UnweaveError.must("metrics", "be names, Metrics or functions", one)
    key = canonical_name(one)
    if key in FAMILIES:
        return [METRICS[name] for name in FAMILIES[key]]
    if is_reference(key):
        return [find_metric(key)]
    metric = known_metric(key)
    if metric is None:
        raise UnknownNameError("metric", one, [*FAMILIES, *METRICS])
    return [metric]


def needs_factors(metric: Metric) -> bool:
    """Whether a metric requires ground-truth factors."""
    return metric.needs in ("factors", "pairs", "densities")
