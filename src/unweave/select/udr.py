"""UDR: disentangled models are alike, so a model that resembles others is probably good."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents
from unweave.errors import UnknownNameError
from unweave.models.images import NUM_SAMPLED
from unweave.select.latents import latents_of
from unweave.select.ranking import partners, quantile_over_compared, rank, reasons_of
from unweave.text import counted

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["POOLINGS", "UDRScores", "lasso_weights", "relevance_rows", "udr", "udr_scores"]

POOLINGS = ("paper", "library")
RELEVANCES = ("lasso", "spearman")
ALPHA = 0.1
"""Penalty of the Lasso in disentanglement_lib."""
TOLERANCE = 1e-10
SWEEPS = 10_000


@dataclass(frozen=True, eq=False)
class UDRScores:
    """UDR scores of M models and of their latents.

    Args:
        models: Scores `[M]`; NaN for a model that was not compared.
        latents: Scores `[M, d]`; NaN for uninformative latents.
        pairs: UDR_ij, `[M, M]`: how well latents of model i predict those of model j.
        compared: Whether each pair counts, `[M, M]`.
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
    rows: int = NUM_SAMPLED,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank models by Unsupervised Disentanglement Ranking (UDR), without labels.

        UDR_ij = (Σ_b r_b² / Σ_a R_ab + Σ_a r_a² / Σ_b R_ab) / (d_i + d_j),    r = max R
        UDR_j  = median_i UDR_ij

    R_ab measures how well latent a of model i predicts latent b of model j, see `relevance_rows`.
    Sums are over the d_i and d_j informative latents.

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: Data set for trained models to encode.
        relevance: `"lasso"` (default) or `"spearman"`.
        compare: `"all"` (default): compare each model with all others, as in disentanglement_lib
            and UDR-A2A of the paper; `"same"`: only with models of the same hyperparameters and
            other seeds, as in UDR of the paper.
        pooling: `"paper"` (default): the equation above; `"library"`: the mean of the two means
            over latents, ½ (1/d_j Σ_b … + 1/d_i Σ_a …), as in disentanglement_lib. They differ
            only if two models have different numbers of informative latents.
        rows: Number of images for trained models to encode.
        seed: Random seed for sampling images.

    Returns:
        One row per model, best first: `run`, `score`, `reason`, `model`, `informative` (latents),
        `compared` (models), `best_latent` and `best_latent_score`.

    Notes:
        The Lasso shrinks weights: signed permutations of uncorrelated codes score 1 - α = 0.9, not
        1. With Spearman they score almost 1; the difference is due to chance correlations. A
        latent that no latent predicts scores 0, and so does a pair with a model without
        informative latents.

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
    reasons = [
        _reason(score, int(count), int(others))
        for score, count, others in zip(scores.models, num_informative, num_compared, strict=True)
    ]
    of_latents = np.nan_to_num(scores.latents)
    return rank(
        latents.runs,
        scores.models,
        reasons_of(latents, scores.compared, reasons),
        informative=num_informative,
        compared=num_compared,
        best_latent=of_latents.argmax(1),
        best_latent_score=of_latents.max(1),
    )


def udr_scores(
    latents: Latents, *, relevance: str = "lasso", compare: str = "all", pooling: str = "paper"
) -> UDRScores:
    """Compute UDR for every pair, model and latent; arguments as for `udr`.

    Notes:
        The score of latent b of model j is the median over models i of its term r_b² / Σ_a R_ab.
        It is close to the score of the model if a single latent of most other models predicts
        latent b, and close to 0 if several latents share it or none encodes it.

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
    pairs, predicted = np.zeros((num_models, num_models)), np.zeros((num_models, num_models, d))
    counts = latents.informative.sum(1)
    for i, R in enumerate(relevance_rows(latents, relevance)):
        predicted[i], predictive = _strength(R, axis=0), _strength(R, axis=2).T
        pairs[i] = _pooled(predicted[i].sum(1), predictive.sum(1), counts, counts[i], pooling)
    of_latents = np.where(latents.informative, quantile_over_compared(predicted, compared), np.nan)
    return UDRScores(quantile_over_compared(pairs, compared), of_latents, pairs, compared)


def _strength(R: np.ndarray, axis: int) -> np.ndarray:
    """Compute (max R)² / Σ R along an axis; 0 where all R are 0."""
    total = R.sum(axis)
    return R.max(axis, initial=0.0) ** 2 / np.where(total > 0, total, 1.0)


def _pooled(
    predicted: np.ndarray,
    predictive: np.ndarray,
    num_predicted: Any,
    num_predictive: Any,
    pooling: str,
) -> np.ndarray:
    """Combine both sums of strengths into one score."""
    if pooling == "paper":
        return (predicted + predictive) / np.maximum(num_predicted + num_predictive, 1)
    return (
        predicted / np.maximum(num_predicted, 1) + predictive / np.maximum(num_predictive, 1)
    ) / 2


def _reason(score: float, informative: int, others: int) -> str:
    if not informative:
        return "none of its latents is informative"
    return f"resembles {counted(others, 'other model')} with a median UDR of {score:.2f}"


def relevance_rows(latents: Latents, relevance: str = "lasso") -> Iterator[np.ndarray]:
    """Yield how well each latent a of a model predicts each latent b of every model j.

        lasso:     R_ab = |w_ab|,  w_·b = argmin ‖z_b^j - Σ_a w_a z_a^i‖² / 2n + α ‖w‖₁
        spearman:  R_ab = |corr(rank z_a^i, rank z_b^j)|

    Args:
        latents: Codes of the models; they are standardised, and uninformative latents count as 0.
        relevance: `"lasso"` (default) or `"spearman"`.

    Yields:
        Matrices `[d, M, d]` of each model i: latent a, model j, latent b.

    Notes:
        Only correlations are used, so the rows cost one matrix product per model, and one run of
        coordinate descent solves the regressions of all latents of all models. Weights are those
        of scikit-learn's `Lasso(alpha=0.1)` with a small tolerance.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(500, 2))
        >>> [first, second] = relevance_rows(Latents(np.stack([z, -3 * z[:, ::-1]])))
        >>> first[:, 1].round(2)
        array([[0. , 0.9],
               [0.9, 0. ]])
    """
    if relevance not in RELEVANCES:
        raise UnknownNameError("relevance", relevance, RELEVANCES)
    codes = latents.standardised if relevance == "lasso" else latents.ranked
    num_models, n, d = codes.shape
    together = codes.transpose(1, 0, 2).reshape(n, num_models * d)
    for i in range(num_models):
        across = codes[i].T @ together / n
        if relevance == "lasso":
            across = lasso_weights(across[:, i * d : (i + 1) * d], across)
        yield np.abs(across).reshape(d, num_models, d)


def lasso_weights(within: np.ndarray, across: np.ndarray, alpha: float = ALPHA) -> np.ndarray:
    """Solve Lasso regressions of T targets on the same d predictors by coordinate descent.

        w_·t = argmin ½ wᵀ C w - c_tᵀ w + α ‖w‖₁,    C = XᵀX / n,  c_t = Xᵀ y_t / n

    Args:
        within: C `[d, d]` of centred predictors.
        across: c `[d, T]` of centred targets.
        alpha: Penalty (default 0.1).

    Returns:
        Weights `[d, T]`; a predictor that is constantly 0 has weight 0.

    References:
        Friedman et al., Regularization Paths for Generalized Linear Models via Coordinate
        Descent, Journal of Statistical Software 33(1), 2010.

    Example:
        >>> lasso_weights(np.eye(2), np.array([[0.5], [-0.05]]))
        array([[0.4],
               [0. ]])
    """
    weights = np.zeros_like(across)
    unsettled = np.arange(across.shape[1])
    for _ in range(SWEEPS):
        before = weights[:, unsettled]
        after = _sweep(within, across[:, unsettled], before.copy(), alpha)
        weights[:, unsettled] = after
        unsettled = unsettled[np.abs(after - before).max(0) > TOLERANCE]
        if not len(unsettled):
            break
    return weights


def _sweep(
    within: np.ndarray, across: np.ndarray, weights: np.ndarray, alpha: float
) -> np.ndarray:
    """Minimise over the weights of each predictor in turn, in place."""
    for j in np.flatnonzero(within.diagonal()):
        left = across[j] - within[j] @ weights + within[j, j] * weights[j]
        weights[j] = (left - np.clip(left, -alpha, alpha)) / within[j, j]
    return weights
