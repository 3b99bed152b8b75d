"""How far the latents of one model tell those of another: Lasso weights or rank correlations."""

from collections.abc import Iterator

import numpy as np

from unweave.analysis.latents import Latents
from unweave.errors import UnknownNameError

__all__ = ["ALPHA", "RELEVANCES", "lasso_weights", "relevance_rows"]

RELEVANCES = ("lasso", "spearman")
ALPHA = 0.1
"""The weight of the Lasso's penalty in disentanglement_lib."""
TOLERANCE = 1e-10
SWEEPS = 10_000


def relevance_rows(latents: Latents, relevance: str = "lasso") -> Iterator[np.ndarray]:
    """How far each latent a of a model tells each latent b of every model j, model by model.

        lasso:     R_ab = |w_ab|,  w_·b = argmin ‖z_b^j - Σ_a w_a z_a^i‖² / 2n + α ‖w‖₁
        spearman:  R_ab = |corr(rank z_a^i, rank z_b^j)|

    Args:
        latents: The models; codes are standardised, uninformative latents count as 0.
        relevance: `"lasso"` or `"spearman"`.

    Yields:
        For each model i its matrices `[d, M, d]`: latent a, model j, latent b.

    Notes:
        Only correlations enter, so the number of rows costs one matrix product for each model,
        and one run of coordinate descent solves the regressions of all latents of all models.
        Weights are those of scikit-learn's `Lasso(alpha=0.1)` with a small tolerance.

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
    """Lasso regressions of T targets on the same d predictors, by coordinate descent.

        w_·t = argmin ½ wᵀ C w - c_tᵀ w + α ‖w‖₁,    C = XᵀX / n,  c_t = Xᵀ y_t / n

    Args:
        within: C `[d, d]`, of centred predictors.
        across: c `[d, T]`, of centred targets.
        alpha: The penalty.

    Returns:
        Weights `[d, T]`; a predictor that is 0 has weight 0.

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
    """Minimise over each predictor's weights in turn, in place."""
    for j in np.flatnonzero(within.diagonal()):
        left = across[j] - within[j] @ weights + within[j, j] * weights[j]
        weights[j] = (left - np.clip(left, -alpha, alpha)) / within[j, j]
    return weights
