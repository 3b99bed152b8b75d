"""Which metrics to compute."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from unweave.errors import UnknownNameError, UnweaveError
from unweave.io.extensions import is_reference
from unweave.metrics import CLASSIC, METRICS, Metric, find_metric, known_metric
from unweave.text import shown, spelled

__all__ = ["Choice", "choose", "needs_factors"]

Choice: TypeAlias = str | Metric | Callable[..., dict[str, float]]
"""A metric, or several of a family: by name, as a `Metric`, or as a function of arrays."""

FAMILIES = {
    "classic": CLASSIC,
    "all": tuple(name for name, metric in METRICS.items() if metric.cost != "hours"),
}


def choose(metrics: Choice | Iterable[Choice]) -> list[Metric]:
    """The metrics chosen, each once.

    Args:
        metrics: `"classic"`, `"all"` (but `fid`, which takes long), the name of a metric
            (`factor-vae` is `factor_vae`), `package.module:NAME` of a user's, a `Metric`, a
            function of arrays, or several of these.
    """
    given: Any = metrics
    single = isinstance(given, str | Metric) or callable(given)
    chosen: dict[str, Metric] = {}
    for one in [given] if single else given:
        for metric in _chosen(one):
            if chosen.setdefault(metric.name, metric) != metric:
                raise UnweaveError(
                    f"two metrics are called {shown(metric.name)}; give each a name of its own"
                )
    if not chosen:
        raise UnweaveError("there is nothing to compute: no metric was given")
    return list(chosen.values())


def _chosen(one: Choice) -> list[Metric]:
    if isinstance(one, Metric):
        return [one]
    if callable(one):
        return [Metric.of_function(one)]
    if not isinstance(one, str):
        raise UnweaveError(f"a metric is a name, a Metric or a function, but got {shown(one)}")
    key = spelled(one)
    if key in FAMILIES:
        return [METRICS[name] for name in FAMILIES[key]]
    if is_reference(key):
        return [find_metric(key)]
    metric = known_metric(key)
    if metric is None:
        raise UnknownNameError("metric", one, [*FAMILIES, *METRICS])
    return [metric]


def needs_factors(metric: Metric) -> bool:
    """Whether a metric cannot do without factors."""
    return metric.needs in ("factors", "pairs", "densities")
