"""UDR: disentangled models are alike, so a model that others resemble is a good one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents
from unweave.errors import UnknownNameError
from unweave.models.drawn_images import NUM_DRAWN
from unweave.select.latents import latents_of
from unweave.select.ranking import partners, rank, reasons_of, typical
from unweave.select.relevance import relevance_rows
from unweave.text import counted

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["POOLINGS", "UDRScores", "udr", "udr_scores"]

POOLINGS = ("paper", "library")


@dataclass(frozen=True, eq=False)
class UDRScores:
    """The scores of M models and of their latents.

    Args:
        models: `[M]`; NaN for a model that was compared with nobody.
        latents: `[M, d]`; NaN for latents that are not informative.
        pairs: UDR_ij, `[M, M]`: the latents of model i tell those of model j.
        compared: Which pairs count, `[M, M]`.
    """

    models: np.ndarray
    latents: np.ndarray
    pairs: np.ndarray
    compared: np.ndarray


def udr(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    *,
    relevance: str = "lasso",
    compare: str = "all",
    pooling: str = "paper",
    rows: int = NUM_DRAWN,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank models by Unsupervised Disentanglement Ranking; no labels are used.

        UDR_ij = (Σ_b r_b² / Σ_a R_ab + Σ_a r_a² / Σ_b R_ab) / (d_i + d_j),    r = max R
        UDR_j  = median_i UDR_ij

    R_ab says how far latent a of model i tells latent b of model j, see `relevance_rows`; sums
    are over informative latents, d_i and d_j of them.

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: What trained models encode.
        relevance: `"lasso"` or `"spearman"`.
        compare: `"all"`, the default: a model with every other, as disentanglement_lib does it
            and as the paper's UDR-A2A; `"same"`: with models of the same hyperparameters and
            other seeds, as the paper's UDR.
        pooling: `"paper"`: the equation above; `"library"`: the mean of the two means over
            latents, ½ (1/d_j Σ_b … + 1/d_i Σ_a …), as disentanglement_lib. They differ only
            where two models have different numbers of informative latents.
        rows: How many images trained models encode.
        seed: Of the draw of images.

    Returns:
        A row per model, best first: `run`, `score`, `reason`, `model`, `informative` (latents),
        `compared` (models), `best_latent` and its score.

    Notes:
        The Lasso shrinks: signed permutations of uncorrelated codes score 1 - α = 0.9 and not 1;
        with Spearman they score nearly 1, the small rest being chance correlations. A latent that
        nothing tells counts 0, and so does a pair in which a model has no informative latent.

    References:
        Duan et al., Unsupervised Model Selection for Variational Disentangled Representation
        Learning, arXiv:1905.12614.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(1000, 3))
        >>> mixed = z @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
        >>> ranking = udr(np.stack([mixed, z, -z[:, ::-1], 2 * z]))
        >>> ranking["run"].tolist(), ranking["score"].round(2).tolist()
        (['1', '2', '3', '0'], [0.9, 0.9, 0.9, 0.5])
    """
    latents = latents_of(models, data, rows, seed)
    scores = udr_scores(latents, relevance=relevance, compare=compare, pooling=pooling)
    num_informative, num_compared = latents.informative.sum(1), scores.compared.sum(0)
    words = [
        _words(score, int(count), latents.means.shape[2], int(others))
        for score, count, others in zip(scores.models, num_informative, num_compared, strict=True)
    ]
    of_latents = np.nan_to_num(scores.latents)
    return rank(
        latents.runs,
        scores.models,
        reasons_of(latents, scores.compared, words),
        informative=num_informative,
        compared=num_compared,
        best_latent=of_latents.argmax(1),
        best_latent_score=of_latents.max(1),
    )


def udr_scores(
    latents: Latents, *, relevance: str = "lasso", compare: str = "all", pooling: str = "paper"
) -> UDRScores:
    """UDR of every pair, model and latent; arguments as for `udr`.

    Notes:
        The score of latent b of model j is the median over models i of its own term,
        r_b² / Σ_a R_ab. It is near the model's score where a single latent of most other models
        tells latent b, and near 0 where several share it or none knows it.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(2000, 2))
        >>> alone = np.random.default_rng(1).normal(size=(3, 2000, 1))
        >>> codes = np.concatenate([np.stack([z, -z, 2 * z]), alone], axis=2)
        >>> udr_scores(Latents(codes)).latents[0].round(1)
        array([0.9, 0.9, 0. ])
    """
    if pooling not in POOLINGS:
        raise UnknownNameError("pooling", pooling, POOLINGS)
    compared = partners(latents, compare)
    num_models, _, d = latents.means.shape
    pairs, told = np.zeros((num_models, num_models)), np.zeros((num_models, num_models, d))
    counts = latents.informative.sum(1)
    for i, R in enumerate(relevance_rows(latents, relevance)):
        told[i], telling = _strength(R, axis=0), _strength(R, axis=2).T
        pairs[i] = _pooled(told[i].sum(1), telling.sum(1), counts, counts[i], pooling)
    of_latents = np.where(latents.informative, typical(told, compared), np.nan)
    return UDRScores(typical(pairs, compared), of_latents, pairs, compared)


def _strength(R: np.ndarray, axis: int) -> np.ndarray:
    """(max R)² / Σ R along an axis; 0 where all is 0."""
    total = R.sum(axis)
    return R.max(axis, initial=0.0) ** 2 / np.where(total > 0, total, 1.0)


def _pooled(
    told: np.ndarray, telling: np.ndarray, num_told: Any, num_telling: Any, pooling: str
) -> np.ndarray:
    """Both sums of strengths as one score."""
    if pooling == "paper":
        return (told + telling) / np.maximum(num_told + num_telling, 1)
    return (told / np.maximum(num_told, 1) + telling / np.maximum(num_telling, 1)) / 2


def _words(score: float, informative: int, latents: int, others: int) -> str:
    if not informative:
        return "none of its latents is informative"
    return (
        f"resembles {counted(others, 'other model')} with a median of {score:.2f}; "
        f"{informative} of {latents} latents are informative"
    )
