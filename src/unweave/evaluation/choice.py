"""Which metrics to compute."""

from collections.abc import Iterable

from unweave.errors import UnknownNameError, UnweaveError
from unweave.metrics import CLASSIC, METRICS, Metric
from unweave.text import spelled

__all__ = ["choose", "needs_factors"]

FAMILIES = {
    "classic": CLASSIC,
    "all": tuple(name for name, metric in METRICS.items() if metric.cost != "hours"),
}


def choose(metrics: str | Iterable[str]) -> list[Metric]:
    """The metrics of some names, each once.

    Args:
        metrics: `"classic"`, `"all"` (but `fid`, which takes long), the name of a metric, or
            several of these; `factor-vae` is `factor_vae`.
    """
    words = [metrics] if isinstance(metrics, str) else list(metrics)
    chosen: dict[str, Metric] = {}
    for word in words:
        key = spelled(word)
        names = FAMILIES.get(key, (key,))
        if names == (key,) and key not in METRICS:
            raise UnknownNameError("metric", word, [*FAMILIES, *METRICS])
        chosen |= {name: METRICS[name] for name in names}
    if not chosen:
        raise UnweaveError("there is nothing to compute: no metric was given")
    return list(chosen.values())


def needs_factors(metric: Metric) -> bool:
    """Whether a metric cannot do without factors."""
    return metric.needs in ("factors", "pairs", "densities")
