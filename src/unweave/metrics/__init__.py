"""Metrics: how disentangled codes are, from arrays of codes and factors.

Every metric is a function of arrays, for anybody's codes:

    scores = uw.metrics.mig(codes, factors)  # [n, d] and [n, K]

`METRICS` describes each: whether higher is better, what it needs, how it is known to fail.
"""

from unweave.metrics.base import Metric, MetricError

__all__ = [
    "CLASSIC",
    "METRICS",
    "Metric",
    "MetricError",
]

METRICS: dict[str, Metric] = {metric.name: metric for metric in ()}
"""Every metric by its name."""

CLASSIC = ("beta_vae", "factor_vae", "mig", "modularity", "dci", "sap")
"""The six of the study of Locatello et al., with its protocol."""
