"""Model selection with few labels: a disentanglement metric computed on labelled rows."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents, SelectionError
from unweave.errors import UnknownNameError, UnweaveError
from unweave.io.arguments import numpy_rng
from unweave.io.arrays import on_host
from unweave.io.extensions import is_reference
from unweave.models.images import sample_rows
from unweave.select.latents import encoded, latents_of, require_data
from unweave.select.ranking import DIVERGED, rank
from unweave.text import canonical_name

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.metrics import Metric
    from unweave.models.finding import Models

__all__ = ["supervised"]

LABELS = 100


def supervised(
    models: "Latents | Models | Any",
    data: "Dataset | str | Any",
    *,
    labels: int = LABELS,
    metric: "str | Metric" = "mig",
    seed: int = 0,
) -> pd.DataFrame:
    """Rank models by a disentanglement metric on a few labelled rows.

        score_j = metric(z^j_1 … z^j_k, v_1 … v_k),    k = 10, 100 or 1,000

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: For codes, the factors of their rows, `[n, K]`; for trained models, a data set with
            known factors.
        labels: Number of labelled rows, sampled without replacement. All models use the same rows;
            with the same seed, a smaller number gives a subset of a larger one.
        metric: Metric that needs codes and factors: a name in `uw.metrics.METRICS`, a `Metric`, or
            a reference `package.module:NAME`.
        seed: Random seed for sampling rows, and of the metric.

    Returns:
        One row per model, best first: `run`, `score`, `reason`, `model`. If the metric cannot
        score a model, `reason` contains the error.

    Notes:
        Uninformative latents are kept, as in the protocols of the metrics. On so few rows metrics
        are biased, usually upwards. The bias is similar for all models, so rankings suffer less.

    References:
        Locatello et al., Disentangling Factors of Variation Using Few Labels, arXiv:1905.01258.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> factors = rng.integers(0, 4, size=(1000, 2))
        >>> mixed = factors @ np.array([[1.0, 1.0], [1.0, -1.0]])
        >>> ranking = supervised(np.stack([mixed, factors]), factors, labels=100)
        >>> ranking["run"].tolist(), ranking["reason"][0]
        (['1', '0'], 'mig of 0.98 on 100 labelled rows')
    """
    chosen = _metric(metric)
    latents, factors = _labelled(models, data, labels, seed)
    outcomes = [
        _outcome(chosen, codes, factors, seed, usable)
        for codes, usable in zip(latents.means, latents.usable, strict=True)
    ]
    scores, reasons = zip(*outcomes, strict=True)
    better = chosen.higher_is_better is not False
    return rank(latents.runs, np.array(scores), reasons, better)


def _metric(metric: "str | Metric") -> "Metric":
    """Return the chosen metric, which must need codes and factors only."""
    from unweave.metrics import METRICS, Metric, find_metric, known_metric

    usual = ("factors", "pairs")
    names = [name for name, each in METRICS.items() if each.needs in usual]
    key = canonical_name(metric) if isinstance(metric, str) else ""
    if isinstance(metric, Metric):
        found: Metric | None = metric
    else:
        found = find_metric(key) if is_reference(key) else known_metric(key)
    if found is None or found.needs not in usual:
        raise UnknownNameError("metric of codes and factors", metric, names)
    return found


def _labelled(models: Any, data: Any, labels: int, seed: int) -> tuple[Latents, np.ndarray]:
    """Return the codes and factors of the labelled rows."""
    if isinstance(models, Latents | np.ndarray) or hasattr(models, "detach"):
        latents, factors = latents_of(models), np.asarray(data)
        n = latents.means.shape[1]
        if len(factors) != n:
            raise SelectionError.must(
                "factors", f"have as many rows as codes ({n:,})", len(factors)
            )
        rows = numpy_rng(seed).permutation(n)[:labels]
        # A diverged model counts as diverged even if its sampled rows are finite.
        means = np.where(latents.usable[:, None, None], latents.means[:, rows], np.nan)
        return Latents(means, runs=latents.runs), factors[rows]
    dataset = require_data(data)
    images_of = sample_rows(dataset, labels, seed)
    factors = on_host(dataset.factors(images_of))
    return encoded(models, dataset, images_of, seed), factors


def _outcome(
    metric: "Metric", codes: np.ndarray, factors: np.ndarray, seed: int, usable: bool
) -> tuple[float, str]:
    if not usable:
        return float("nan"), DIVERGED
    try:
        score = metric(codes, factors, seed)[metric.name]
    except UnweaveError as error:
        return float("nan"), f"no {metric.name}: {error}"
    return score, f"{metric.name} of {score:.2f} on {len(codes):,} labelled rows"
