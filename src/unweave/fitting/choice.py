"""The choice of a model without labels: by reconstruction, activity and agreement.

Shapes: M models, n images, d latents.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents
from unweave.data.dataset import Dataset
from unweave.fitting.baselines import Baselines, unit_images
from unweave.models.images import NUM_SAMPLED, sample_rows
from unweave.models.model import Fleet
from unweave.select.latents import encoded
from unweave.select.udr import udr

__all__ = ["Evidence", "comparable", "evidence", "ranked"]

COLLAPSED = 0.5
"""A model has collapsed if it explains less than this fraction of what the best model explains."""
MIN_TRAINED = 1 / 3
"""Models with less than this fraction of the longest training are not compared."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Measurements of models that need no labels.

    Args:
        latents: Codes of the models.
        errors: Mean squared error of each model's reconstructions, `[M]`; NaN if it diverged.
        baselines: Errors of the mean image and of principal components.
    """

    latents: Latents
    errors: np.ndarray
    baselines: Baselines

    @property
    def explained(self) -> np.ndarray:
        """Share of the pixel variance that each model explains, `[M]`."""
        return self.baselines.explained(self.errors)

    @property
    def collapsed(self) -> np.ndarray:
        """Whether a model diverged or explains far less than the best one, `[M]`."""
        explained = np.nan_to_num(self.explained, nan=-np.inf)
        return ~(explained > COLLAPSED * max(explained.max(), 0.0))


def evidence(fleet: Fleet, data: Dataset, baselines: Baselines) -> Evidence:
    """Encode a sample of the images with every model, and measure its reconstructions."""
    latents = encoded(fleet, data, sample_rows(data, NUM_SAMPLED, seed=0))
    images = unit_images(data, baselines.rows)
    errors = np.full(len(fleet), np.nan)
    for place in np.flatnonzero(latents.usable):
        # The rows of the baselines are the first of the larger sample.
        decoded = fleet[int(place)].decode(latents.means[place, : len(images)])
        errors[place] = np.square(decoded.reshape(images.shape) - images).mean(dtype=np.float64)
    return Evidence(latents, errors, baselines)


def comparable(found: Evidence, steps: Sequence[int]) -> Latents:
    """Return the codes, without those of models that collapsed or had much less training.

    A model that stopped early encodes less than the chosen one. If the two differ, a model with
    the same training and another seed might still agree.

    Args:
        found: What is known about the models.
        steps: Number of training steps of each model.

    Returns:
        Codes of all models; those of the models left out are NaN, and excluded from comparisons.
    """
    trained = np.asarray(steps) >= max(steps) * MIN_TRAINED
    collapsed = np.zeros_like(found.collapsed) if found.collapsed.all() else found.collapsed
    return replace(found.latents, means=_only(found.latents.means, trained & ~collapsed))


def _only(means: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the codes of some models, and NaN for the others."""
    return np.where(kept[:, None, None], means, np.nan)


def ranked(found: Evidence, finalists: Any = None) -> pd.DataFrame:
    """Rank models by their agreement with all models that have not collapsed, best first.

    Finalists, which were trained to the end, come before models that stopped earlier, and models
    that have collapsed come last.

    Args:
        found: What is known about the models.
        finalists: Whether each model was trained to the end, `[M]` (default: all).

    Returns:
        The columns of `uw.select.udr`, and `explained`: the share of the pixel variance
        that the reconstructions explain.
    """
    latents, collapsed = found.latents, found.collapsed
    if collapsed.all():
        collapsed = ~latents.usable
    ranking = udr(replace(latents, means=_only(latents.means, ~collapsed)))
    places = ranking["model"].to_numpy()
    ranking["explained"] = found.explained[places].round(4)
    excluded = collapsed & latents.usable
    ranking["reason"] = [
        f"explains {share:.0%} of the pixel variance, the best model {max(found.explained):.0%}"
        if excluded[place]
        else reason
        for place, share, reason in zip(
            places, ranking["explained"], ranking["reason"], strict=True
        )
    ]
    final = np.ones(len(latents), bool) if finalists is None else np.asarray(finalists)
    last = np.where(collapsed, 2, ~final)[places]
    return ranking.iloc[np.argsort(last, kind="stable")].reset_index(drop=True)
