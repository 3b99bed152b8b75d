"""DCI: disentanglement, completeness and informativeness from boosted trees."""

from typing import Any, Literal

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, Table, train_and_test
from unweave.metrics.tools.predictors import accuracies, fit_factors

__all__ = ["DCI", "Engine", "completeness", "dci", "disentanglement", "importance_matrix"]

Engine = Literal["fast", "sklearn"]


def dci(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    test_codes: Any = None,
    test_factors: Any = None,
    engine: Engine = "fast",
) -> dict[str, float]:
    """Disentanglement, completeness and informativeness from the importances of boosted trees.

        D = Σ_j w_j (1 - H_K(R_j: / Σ_k R_jk)),    w_j = Σ_k R_jk / Σ_jk R_jk
        C = Σ_k w_k (1 - H_d(R_:k / Σ_j R_jk)),    w_k = Σ_j R_jk / Σ_jk R_jk
        I = mean accuracy over factors

    where R_jk is the importance of code j in boosted trees that predict factor k, and H_K and H_d
    are entropies with the number of factors or codes as base.

    Args:
        codes: Codes `[n, d]`; if there are more than 15,000 rows, that many are sampled.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling rows and for ties between splits.
        test_codes: Codes of separate test rows (default: a third of the rows is used).
        test_factors: Factors of the test rows.
        engine: `"fast"` (default), or `"sklearn"` for the published `GradientBoostingClassifier`.
            Both use the same algorithm; the fast engine is more than twenty times as fast.

    Returns:
        `dci` and `disentanglement`, both D; `completeness`; `informativeness_train` and
        `informativeness_test`.

    Notes:
        The engines differ in tie-breaking and rounding. Their scores differ about as much as those
        of scikit-learn with different random states. The reference does not fix the random state;
        here it is derived from the seed. A code or factor without any importance scores 0. With a
        single factor, all other codes score 1 for disentanglement; with a single code, all other
        factors score 1 for completeness.

    References:
        Eastwood and Williams, A Framework for the Quantitative Evaluation of Disentangled
        Representations, ICLR 2018.

    Example:
        >>> grid = np.stack(np.meshgrid(range(4), range(5), indexing="ij"), -1).reshape(-1, 2)
        >>> mixed = grid @ np.array([[1.0, 0.5], [0.0, 1.0]])
        >>> {name: round(score, 2) for name, score in dci(mixed, grid).items()}
        {'dci': 0.72, 'disentanglement': 0.72, 'completeness': 0.73,
         'informativeness_train': 1.0, 'informativeness_test': 1.0}
    """
    generator = numpy_rng(seed)
    train_rows, test_rows = train_and_test(codes, factors, test_codes, test_factors, generator)
    fitted = _fit(train_rows, engine, generator)
    importances = np.stack([trees.feature_importances_ for trees in fitted], 1)
    score = disentanglement(importances)
    return {
        "dci": score,
        "disentanglement": score,
        "completeness": completeness(importances),
        "informativeness_train": float(accuracies(fitted, train_rows).mean()),
        "informativeness_test": float(accuracies(fitted, test_rows).mean()),
    }


def importance_matrix(
    codes: Any, factors: Any, seed: int = 0, *, engine: Engine = "fast"
) -> np.ndarray:
    """Return the importance R of every code for every factor, on the training rows of `dci`.

    Returns:
        `[d, K]`; every column sums to 1. Constant factors have no column.
    """
    generator = numpy_rng(seed)
    train_rows, _ = train_and_test(codes, factors, None, None, generator)
    fitted = _fit(train_rows, engine, generator)
    return np.stack([trees.feature_importances_ for trees in fitted], 1)


def _fit(train_rows: Table, engine: Engine, generator: np.random.Generator) -> list[Any]:
    seeds = generator.integers(2**32, size=train_rows.sizes.shape)
    return fit_factors("trees", train_rows, seeds.tolist(), engine)


def disentanglement(importances: np.ndarray) -> float:
    """Return D for importances `[d, K]`.

    Example:
        >>> round(disentanglement(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])), 6)
        0.666667
    """
    return _weighted(_concentration(importances), importances.sum(1))


def completeness(importances: np.ndarray) -> float:
    """Return C for importances `[d, K]`."""
    return _weighted(_concentration(importances.T), importances.sum(0))


def _concentration(shares: np.ndarray) -> np.ndarray:
    """Return one minus the entropy of each row, with its length as base; 0 for a row of zeros."""
    p = shares + 1e-11
    p = p / p.sum(1, keepdims=True)
    entropy = -(p * np.log(p)).sum(1) / np.log(max(shares.shape[1], 2))
    return np.where(shares.sum(1) > 0, 1 - entropy, 0)


def _weighted(scores: np.ndarray, weights: np.ndarray) -> float:
    weights = weights if weights.sum() > 0 else np.ones_like(weights)
    return float((scores * weights).sum() / weights.sum())


DCI = Metric(
    function=dci,
    label="DCI",
    explanation="Boosted trees predict the factors. Is each latent important for one factor only? "
    "Also reported: does each factor need one latent only (completeness), and how well are "
    "factors predicted (informativeness)?",
    failure="It depends on the predictor: trees with other settings give other importances.",
)
