"""Pareto front: models that no other model beats in both reconstruction and KL divergence."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents, SelectionError
from unweave.io.arrays import on_host
from unweave.models.images import sample_rows
from unweave.select.latents import encoded, require_data
from unweave.select.ranking import DIVERGED, rank
from unweave.text import counted

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["fronts", "pareto"]

ROWS = 1_000
"""Number of images that every model reconstructs."""


def pareto(
    models: "Models",
    data: "Dataset | str",
    *,
    rows: int = ROWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank models by Pareto fronts of reconstruction error and KL divergence, without labels.

    Args:
        models: Trained models.
        data: Data set to encode and decode.
        rows: Number of images.
        seed: Random seed for sampling images.

    Returns:
        One row per model, best first: `run`, `score` (number of its front: 1 is the Pareto front,
        lower is better), `reason`, `model`, `reconstruction`, `kl`, `dominated_by`. Within a
        front, models are sorted by ELBO, largest first.

    Notes:
        Models on the front are not necessarily disentangled; the front only excludes models that
        waste capacity. Reconstructions are decoded from mean codes.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> fleet = uw.train(uw.methods.VAE(), data, seeds=2, steps=2, batch=8, progress=False)
        >>> ranking = uw.select.pareto(fleet, data, rows=50)
        >>> int(ranking["score"][0]), ranking.columns[:3].tolist()
        (1, ['run', 'score', 'reason'])
    """
    from unweave.models.finding import models_of

    dataset = require_data(data)
    images_of = sample_rows(dataset, rows, seed)
    trained = models_of(models)
    latents = encoded(trained, dataset, images_of, seed)
    images = on_host(dataset.images(images_of, seed))
    costs = [
        _reconstruction(model.decode(codes), images, model.config.likelihood) if usable else np.nan
        for model, codes, usable in zip(trained, latents.means, latents.usable, strict=True)
    ]
    return by_fronts(latents, np.array(costs))


def by_fronts(latents: Latents, reconstruction: np.ndarray) -> pd.DataFrame:
    """Rank models by reconstruction errors `[M]` and KL divergence; see `pareto`."""
    if latents.kl is None:
        raise SelectionError(
            "the Pareto front needs the KL divergence; pass logvars or kl", subject="kl"
        )
    kl = np.where(latents.usable, latents.kl.sum(1), np.nan)
    layer, dominators = fronts(reconstruction, kl), dominance(reconstruction, kl).sum(0)
    # The sort by front is stable, so this order decides within a front.
    order = np.argsort(reconstruction + kl, kind="stable")
    table = rank(
        [latents.runs[k] for k in order],
        layer[order],
        [_reason(int(dominators[k]), bool(latents.usable[k])) for k in order],
        higher_is_better=False,
        reconstruction=reconstruction[order],
        kl=kl[order],
        dominated_by=dominators[order],
    )
    table["model"] = order[table["model"]]
    return table


def dominance(reconstruction: np.ndarray, kl: np.ndarray) -> np.ndarray:
    """Whether model i is at least as good as j in both, and better in one, `[M, M]`."""
    no_worse = (reconstruction[:, None] <= reconstruction) & (kl[:, None] <= kl)
    equal = (reconstruction[:, None] == reconstruction) & (kl[:, None] == kl)
    return no_worse & ~equal


def fronts(reconstruction: np.ndarray, kl: np.ndarray) -> np.ndarray:
    """Return the number of each model's front, `[M]`: 1, then 2 for the front of the rest, etc.

        i dominates j  ⇔  rec_i ≤ rec_j, KL_i ≤ KL_j, and one of them is smaller

    Args:
        reconstruction: Reconstruction errors, `[M]`.
        kl: KL divergences, `[M]`.

    Returns:
        Front numbers; NaN for models with a non-finite cost.

    References:
        Deb et al., A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II, 2002.

    Example:
        >>> fronts(np.array([1.0, 2.0, 3.0, 2.0]), np.array([3.0, 2.0, 2.5, 1.0]))
        array([1., 2., 3., 1.])
    """
    dominates = dominance(reconstruction, kl)
    layer = np.full(len(kl), np.nan)
    left = np.isfinite(reconstruction) & np.isfinite(kl)
    number = 1
    while left.any():
        front = left & ~dominates[left].any(0)
        layer[front] = number
        left &= ~front
        number += 1
    return layer


def _reconstruction(decoded: np.ndarray, images: np.ndarray, likelihood: str) -> float:
    from unweave.metrics.elbo import log_likelihood

    return -float(log_likelihood(images, decoded, likelihood).mean())


def _reason(dominators: int, usable: bool) -> str:
    if not usable:
        return DIVERGED
    if not dominators:
        return "on the Pareto front: no model is better in both reconstruction and KL"
    verb = "is" if dominators == 1 else "are"
    models = counted(dominators, "model")
    return f"{models} {verb} at least as good in both reconstruction and KL"
