"""The choice of a model without labels: by reconstruction, activity and agreement.

Shapes: M models, n images, d latents.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from unweave.analysis.activity import Activity, shown_activity
from unweave.analysis.latents import Latents
from unweave.data.dataset import Dataset
from unweave.fitting.baselines import Baselines, unit_images
from unweave.models.images import NUM_SAMPLED, sample_rows
from unweave.models.model import Fleet
from unweave.select.latents import encoded
from unweave.select.ranking import quantile_over_compared, rank, reasons_of
from unweave.select.udr import udr_scores
from unweave.text import counted

__all__ = ["Evidence", "comparable", "evidence", "ranked"]

COLLAPSED = 0.5
"""A model has collapsed if it explains less than this fraction of what the best model explains."""
MIN_TRAINED = 1 / 3
"""Models with less than this fraction of the longest training are not compared."""
ALIKE = 0.75
"""Quantile of the agreement with other models that counts for a model. A portfolio includes
networks and strengths that do not suit the images; these agree with no other model."""
MANY = 8
"""Number of other models from which on the quantile counts; of fewer, the median does."""
AS_ACCURATE = 2.0
"""Models that leave at most this times the unexplained variance of the best one count as equally
accurate; the most accurate are those with the weakest regularisation."""
SMALLEST = 1e-6
"""Lower limit of the unexplained share of the pixel variance."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Measurements of models that need no labels.

    Args:
        latents: Codes of the models.
        errors: Mean squared error of each model's reconstructions, `[M]`; NaN if it diverged.
        baselines: Errors of the mean image and of principal components.
        activities: Activity of the latents of each model.
    """

    latents: Latents
    errors: np.ndarray
    baselines: Baselines
    activities: Sequence[Activity]

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
    activities = [
        shown_activity(
            means,
            logvars,
            deterministic=config.method.deterministic,
            standard_noise=config.method.standard_noise,
        )
        for means, logvars, config in zip(
            latents.means, latents.logvars, fleet.configs, strict=True
        )
    ]
    return Evidence(latents, errors, baselines, activities)


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
    """Rank models by agreement, reconstruction and compactness; best first.

        score_j = Q_i UDR_ij / (max(2, r_j) · √clear_j),    r_j = (1 - explained_j) / min_k (…)_k

    with Q the upper quartile over the other models i (of fewer than 8, the median), r the
    unexplained pixel variance relative to that of the best model, and `clear` the number of clear
    latents. A model is good if others agree with it, if it reconstructs the images about as well
    as any, and if it needs few latents for that: models that encode a hue or an angle in two
    latents often agree, too. Finalists, which were trained to the end, come before models that
    stopped earlier, and models that have collapsed come last.

    Args:
        found: What is known about the models.
        finalists: Whether each model was trained to the end, `[M]` (default: all).

    Returns:
        One row per model: `run`, `score`, `reason`, `model` (its index), `informative` and `clear`
        (numbers of latents), `compared` (number of models), `agreement` (Q UDR), and `explained`
        (the share of the pixel variance that its reconstructions explain).
    """
    collapsed = found.collapsed
    if collapsed.all():
        collapsed = ~found.latents.usable
    latents = replace(found.latents, means=_only(found.latents.means, ~collapsed))
    scores = udr_scores(latents)
    others = scores.compared.sum(0).max()
    share = ALIKE if others >= MANY else 0.5
    agreement = quantile_over_compared(scores.pairs, scores.compared, share)
    explained = found.explained
    clear = np.array([activity.clear.sum() for activity in found.activities])
    left = np.maximum(1 - explained, SMALLEST)
    inaccuracy = np.maximum(left / np.nanmin(left), AS_ACCURATE)
    score = agreement / inaccuracy / np.sqrt(np.maximum(clear, 1))
    excluded = collapsed & found.latents.usable
    informative, compared = latents.informative.sum(1), scores.compared.sum(0)
    texts = [_reason(*row) for row in zip(agreement, explained, compared, strict=True)]
    reasons = [
        f"explains {share:.0%} of the pixel variance, {np.nanmax(explained):.0%} is possible"
        if left_out
        else reason
        for left_out, share, reason in zip(
            excluded, explained, reasons_of(latents, scores.compared, texts), strict=True
        )
    ]
    ranking = rank(
        latents.runs,
        score,
        reasons,
        informative=informative,
        clear=clear,
        compared=compared,
        agreement=agreement,
        explained=explained.round(4),
    )
    final = np.ones(len(latents), bool) if finalists is None else np.asarray(finalists)
    last = np.where(collapsed, 2, ~final)[ranking["model"]]
    return ranking.iloc[np.argsort(last, kind="stable")].reset_index(drop=True)


def _reason(agreement: float, explained: float, others: int) -> str:
    return (
        f"resembles the most similar of {counted(others, 'other model')} (UDR {agreement:.2f}), "
        f"and explains {explained:.0%} of the pixel variance"
    )
