"""The codes that every choice of models reads: those given, or those of trained models.

Shapes: M models, n rows (images), d latents.
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.analysis.activity import kl_in_use
from unweave.analysis.latents import Latents, SelectionError
from unweave.models.drawn_images import NUM_DRAWN, drawn_rows

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["encoded", "known_data", "latents_of"]


def latents_of(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    rows: int = NUM_DRAWN,
    seed: int = 0,
) -> Latents:
    """The codes of whatever was given.

    Args:
        models: `Latents`; an array of codes `[M, n, d]`; or trained models: a fleet, folders of
            saved runs, or several of these.
        data: What trained models encode.
        rows: How many of its images, drawn once each; all where there are fewer.
        seed: Of that draw, and of images that are random given their factors.
    """
    if isinstance(models, Latents):
        return models
    if isinstance(models, np.ndarray) or hasattr(models, "detach"):
        return Latents(models)
    dataset = known_data(data)
    return encoded(models, dataset, drawn_rows(dataset, rows, seed), seed)


def known_data(data: "Dataset | str | None") -> "Dataset":
    """The data set given, or that of a name."""
    from unweave.data import load

    if data is None:
        raise SelectionError("trained models must be given with the data that they encode")
    return load(data) if isinstance(data, str) else data


def encoded(models: "Models", data: "Dataset", images_of: np.ndarray, seed: int = 0) -> Latents:
    """Encode some images with every model, models of one kind together.

    Args:
        models: As `uw.evaluate` takes them.
        data: The data set.
        images_of: The numbers of its images.
        seed: Of images that are random given their factors.
    """
    from unweave.models.encoding import posteriors
    from unweave.models.finding import models_of

    trained = models_of(models)
    configs = [model.config for model in trained]
    sizes = sorted({config.code_size for config in configs})
    if len(sizes) > 1:
        raise SelectionError(f"models must have equally many latents, but got {sizes}")
    found = posteriors(trained, data, images_of, seed=seed)
    means, logvars = (each.astype(np.float64) for each in found)
    lost = [k for k, model in enumerate(trained) if model.diverged_at[0] >= 0]
    means[lost] = np.nan
    return Latents(
        means,
        logvars,
        kl=kl_in_use(means, logvars, [config.method.standard_noise for config in configs]),
        runs=[config.hash for config in configs],
        settings=[_settings(config.to_dict()) for config in configs],
    )


def _settings(plain: dict[str, Any]) -> str:
    return json.dumps({**plain, "seed": None}, sort_keys=True)
