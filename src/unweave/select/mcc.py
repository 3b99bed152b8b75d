"""MCC between models: their latents, matched one to one, and how far these correlate."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents
from unweave.models.drawn_images import NUM_DRAWN
from unweave.select.agreement import by_agreement
from unweave.select.latents import latents_of

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["correlations", "match", "mcc", "mcc_pairs"]


def mcc(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    *,
    compare: str = "all",
    rows: int = NUM_DRAWN,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank models by the median of their MCC with others; no labels are used.

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: What trained models encode.
        compare: `"all"`, or `"same"` hyperparameters.
        rows: How many images trained models encode.
        seed: Of the draw of images.

    Returns:
        A row per model, best first: `run`, `score`, `reason`, `model`, `informative`, `compared`.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(1000, 2))
        >>> mixed = z @ np.array([[0.8, 0.6], [-0.6, 0.8]])
        >>> mcc(np.stack([mixed, z, -z[:, ::-1] ** 3, z]))["run"].tolist()
        ['1', '2', '3', '0']
    """
    latents = latents_of(models, data, rows, seed)
    return by_agreement(
        latents,
        mcc_pairs(latents),
        compare,
        lambda score, others: (
            f"its latents match those of {others}: median rank correlation {score:.2f}"
        ),
    )


def mcc_pairs(latents: Latents) -> np.ndarray:
    """The mean correlation of matched latents of every two models, `[M, M]`.

        MCC_ij = Σ_a |corr(rank z_a^i, rank z_π(a)^j)| / max(d_i, d_j),    π of largest sum

    Args:
        latents: The models; only informative latents are matched.

    Notes:
        That of `uw.metrics.mcc`, with one model's latents as the factors of the other, where both
        have equally many; latents that find no partner count 0.

    References:
        Hyvärinen and Morioka, Unsupervised Feature Extraction by Time-Contrastive Learning,
        arXiv:1605.06336.
    """
    strength = np.abs(correlations(latents))
    counts = latents.informative.sum(1)
    pairs = np.zeros((len(latents), len(latents)))
    for i in range(len(latents)):
        for j in range(i + 1):
            between = strength[i, :, j]
            # Latents that are not informative correlate with nothing, so they change no sum.
            total = between[match(between)].sum()
            pairs[i, j] = pairs[j, i] = total / max(counts[i], counts[j], 1)
    return pairs


def correlations(latents: Latents) -> np.ndarray:
    """Spearman's correlation of every two latents, `[M, d, M, d]`; 0 for uninformative ones."""
    num_models, n, d = latents.ranked.shape
    together = latents.ranked.transpose(1, 0, 2).reshape(n, num_models * d)
    return (together.T @ together / n).reshape(num_models, d, num_models, d)


def match(strength: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns matched one to one such that the sum of their entries is largest.

    Example:
        >>> match(np.array([[0.9, 0.8], [0.7, 0.1]]))
        (array([0, 1]), array([1, 0]))
    """
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(strength, maximize=True)
