"""Disentanglement metrics, computed from arrays of codes and factors.

Every metric is a function of arrays and accepts codes from any source:

    scores = uw.metrics.mig(codes, factors)  # [n, d] and [n, K]

`METRICS` describes each metric: whether higher is better, its inputs and its known failure.
"""

from typing import Any

from unweave.errors import UnknownNameError
from unweave.io.extensions import is_reference, plugin_objects, reference_to, resolve
from unweave.metrics.active_units import ACTIVE_UNITS, active_units
from unweave.metrics.base import Metric, MetricError
from unweave.metrics.beta_vae import BETA_VAE, beta_vae
from unweave.metrics.dci import DCI, dci, importance_matrix
from unweave.metrics.dci_es import DCI_ES, dci_es
from unweave.metrics.downstream import DOWNSTREAM, downstream
from unweave.metrics.elbo import ELBO, elbo
from unweave.metrics.factor_vae import FACTOR_VAE, factor_vae, vote_matrix
from unweave.metrics.fairness import FAIRNESS, fairness
from unweave.metrics.fid import FID, fid
from unweave.metrics.gaussian_total_correlation import (
    GAUSSIAN_TOTAL_CORRELATION,
    gaussian_total_correlation,
)
from unweave.metrics.gaussian_wasserstein_correlation import (
    GAUSSIAN_WASSERSTEIN_CORRELATION,
    gaussian_wasserstein_correlation,
)
from unweave.metrics.infomec import INFOMEC, infomec
from unweave.metrics.irs import IRS, irs
from unweave.metrics.jemmig import JEMMIG, jemmig
from unweave.metrics.mcc import MCC, mcc
from unweave.metrics.mig import MIG, information_matrix, mig
from unweave.metrics.mig_density import MIG_DENSITY, mig_density
from unweave.metrics.mig_sup import MIG_SUP, mig_sup
from unweave.metrics.modularity import MODULARITY, modularity
from unweave.metrics.mutual_info_score import MUTUAL_INFO_SCORE, mutual_info_score
from unweave.metrics.omes import OMES, omes
from unweave.metrics.pipe import PIPE, pipe
from unweave.metrics.pixel_error import PIXEL_ERROR, pixel_error
from unweave.metrics.polarised_regime import POLARISED_REGIME, polarised_regime
from unweave.metrics.reduced_downstream import REDUCED_DOWNSTREAM, reduced_downstream
from unweave.metrics.rmig import RMIG, rmig
from unweave.metrics.sap import SAP, accuracy_matrix, sap
from unweave.metrics.strong_generalisation import STRONG_GENERALISATION, strong_generalisation
from unweave.metrics.tools.accumulator import Accumulator
from unweave.metrics.tools.intervals import Interval, interval
from unweave.metrics.tools.vectors import grouped
from unweave.metrics.z_diff import Z_DIFF, z_diff
from unweave.metrics.z_max_var import Z_MAX_VAR, z_max_var
from unweave.metrics.z_min_var import Z_MIN_VAR, z_min_var

__all__ = [
    "CLASSIC",
    "METRICS",
    "Accumulator",
    "Interval",
    "Metric",
    "MetricError",
    "accuracy_matrix",
    "active_units",
    "beta_vae",
    "dci",
    "dci_es",
    "downstream",
    "elbo",
    "factor_vae",
    "fairness",
    "fid",
    "gaussian_total_correlation",
    "gaussian_wasserstein_correlation",
    "grouped",
    "importance_matrix",
    "infomec",
    "information_matrix",
    "interval",
    "irs",
    "jemmig",
    "mcc",
    "mig",
    "mig_density",
    "mig_sup",
    "modularity",
    "mutual_info_score",
    "omes",
    "pipe",
    "pixel_error",
    "polarised_regime",
    "reduced_downstream",
    "rmig",
    "sap",
    "strong_generalisation",
    "vote_matrix",
    "z_diff",
    "z_max_var",
    "z_min_var",
]

METRICS: dict[str, Metric] = {
    "beta_vae": BETA_VAE,
    "factor_vae": FACTOR_VAE,
    "mig": MIG,
    "modularity": MODULARITY,
    "dci": DCI,
    "sap": SAP,
    "irs": IRS,
    "gaussian_total_correlation": GAUSSIAN_TOTAL_CORRELATION,
    "gaussian_wasserstein_correlation": GAUSSIAN_WASSERSTEIN_CORRELATION,
    "mutual_info_score": MUTUAL_INFO_SCORE,
    "active_units": ACTIVE_UNITS,
    "polarised_regime": POLARISED_REGIME,
    "elbo": ELBO,
    "pixel_error": PIXEL_ERROR,
    "fid": FID,
    "pipe": PIPE,
    "mig_density": MIG_DENSITY,
    "mig_sup": MIG_SUP,
    "jemmig": JEMMIG,
    "rmig": RMIG,
    "mcc": MCC,
    "infomec": INFOMEC,
    "z_diff": Z_DIFF,
    "z_min_var": Z_MIN_VAR,
    "z_max_var": Z_MAX_VAR,
    "downstream": DOWNSTREAM,
    "reduced_downstream": REDUCED_DOWNSTREAM,
    "strong_generalisation": STRONG_GENERALISATION,
    "fairness": FAIRNESS,
    "dci_es": DCI_ES,
    "omes": OMES,
}
"""All built-in metrics by name."""

CLASSIC = ("beta_vae", "factor_vae", "mig", "modularity", "dci", "sap")
"""The six metrics of the study of Locatello et al., with its protocol."""


def find_metric(name: str) -> Metric:
    """Return a metric by `name`: built-in, from a plugin, or a reference `package.module:NAME`."""
    if is_reference(name):
        found: Metric = resolve(name, "metric", _is_metric)
        return found
    metric = known_metric(name)
    if metric is None:
        raise UnknownNameError("metric", name, METRICS)
    return metric


def known_metric(name: str) -> Metric | None:
    """Return the metric called `name`, built-in or from an imported module, or None."""
    if name in METRICS:
        return METRICS[name]
    return next((metric for metric in plugin_objects(_is_metric) if metric.name == name), None)


def saved_name(metric: Metric) -> str | None:
    """Return the name under which studies and cached scores refer to a metric.

    `find_metric` accepts this name. None if a custom metric is not a module-level variable.
    """
    if METRICS.get(metric.name) is metric:
        return metric.name
    return reference_to(metric, getattr(metric.function, "__module__", ""))


def _is_metric(thing: Any) -> bool:
    return isinstance(thing, Metric)


def __dir__() -> list[str]:
    return sorted(__all__)
