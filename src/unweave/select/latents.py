"""Codes for model selection, given as arrays or encoded by trained models.

Shapes: M models, n rows (images), d latents.
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.analysis.activity import kl_in_use
from unweave.analysis.latents import Latents, SelectionError
from unweave.models.images import NUM_SAMPLED, sample_rows

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["encoded", "latents_of", "require_data"]


def latents_of(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    rows: int = NUM_SAMPLED,
    seed: int = 0,
) -> Latents:
    """Return the codes of the given models.

    Args:
        models: `Latents`; an array of codes `[M, n, d]`; or trained models: a fleet, folders of
            saved runs, or several of these.
        data: Data set for trained models to encode.
        rows: Largest number of images to encode, sampled without replacement.
        seed: Random seed for sampling images, and for images that are random given their factors.
    """
    if isinstance(models, Latents):
        return models
    if isinstance(models, np.ndarray) or hasattr(models, "detach"):
        return Latents(models)
    dataset = require_data(data)
    return encoded(models, dataset, sample_rows(dataset, rows, seed), seed)


def require_data(data: "Dataset | str | None") -> "Dataset":
    """Return the given data set, or load it by name."""
    from unweave.data import load

    if data is None:
        raise SelectionError(
            "trained models need a data set to encode, got None; pass data", subject="data"
        )
    return load(data) if isinstance(data, str) else data


def encoded(models: "Models", data: "Dataset", images_of: np.ndarray, seed: int = 0) -> Latents:
    """Encode the images with these numbers with every model, in batches of similar models."""
    from unweave.models.encoding import posteriors
    from unweave.models.finding import models_of

    trained = models_of(models)
    configs = [model.config for model in trained]
    sizes = sorted({config.code_size for config in configs})
    if len(sizes) > 1:
        raise SelectionError.must("latents", "have the same number in every model", sizes)
    found = posteriors(trained, data, images_of, seed=seed)
    means, logvars = (each.astype(np.float64) for each in found)
    diverged = [k for k, model in enumerate(trained) if model.diverged_at[0] >= 0]
    means[diverged] = np.nan
    return Latents(
        means,
        logvars,
        kl=kl_in_use(means, logvars, [config.method.standard_noise for config in configs]),
        runs=[config.hash for config in configs],
        settings=[
            json.dumps({**config.to_dict(), "seed": None}, sort_keys=True) for config in configs
        ],
    )
