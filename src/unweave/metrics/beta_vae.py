"""BetaVAE score: identify the fixed factor from differences between codes."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, Table, table
from unweave.metrics.tools.grouped_rows import groups
from unweave.metrics.tools.predictors import fit_logistic

__all__ = ["BETA_VAE", "beta_vae"]


def beta_vae(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    train: int = 10_000,
    test: int = 5_000,
    batch: int = 64,
) -> dict[str, float]:
    """Accuracy of a linear classifier that identifies the factor shared by two batches of rows.

        x = 1/B Σ_b |z_b - z'_b|,    v_k = v'_k in every pair b, other factors sampled freely
        score = accuracy of logistic regression of k on x

    Args:
        codes: Codes `[n, d]`.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling factors and pairs.
        train: Number of training points x.
        test: Number of test points x.
        batch: Number B of pairs per point.

    Returns:
        `beta_vae`, the accuracy on the test points; `train_accuracy`.

    Notes:
        Pairs are sampled from the given rows, whether these are a full grid or a sample: the first
        row is any row, the second any row with the same value. The classifier is scikit-learn's
        `LogisticRegression` with default settings (at most 100 iterations). With a single factor
        the score is 1.

    References:
        Higgins et al., β-VAE: Learning Basic Visual Concepts with a Constrained Variational
        Framework, ICLR 2017.

    Example:
        >>> grid = np.stack(np.meshgrid(range(4), range(5), indexing="ij"), -1).reshape(-1, 2)
        >>> beta_vae(grid.astype(float), grid)
        {'beta_vae': 1.0, 'train_accuracy': 1.0}
    """
    rows, generator = table(codes, factors), numpy_rng(seed)
    fixed = generator.integers(rows.factors.shape[1], size=train + test)
    points = differences(rows, fixed, batch, generator)
    if len(np.unique(fixed[:train])) == 1:
        accuracy = float((fixed == fixed[0]).mean())
        return {"beta_vae": accuracy, "train_accuracy": 1.0}
    classifier = fit_logistic(points[:train], fixed[:train])
    return {
        "beta_vae": float(classifier.score(points[train:], fixed[train:])),
        "train_accuracy": float(classifier.score(points[:train], fixed[:train])),
    }


def differences(
    table: Table, fixed: np.ndarray, batch: int, generator: np.random.Generator
) -> np.ndarray:
    """Return the point x for each fixed factor `[points]`, `[points, d]`."""
    points = np.empty((len(fixed), table.codes.shape[1]))
    for factor in range(table.factors.shape[1]):
        chosen = np.flatnonzero(fixed == factor)
        first = generator.integers(len(table), size=(len(chosen), batch))
        second = groups(table, factor).partners(first, generator)
        difference = np.take(table.codes, first, 0) - np.take(table.codes, second, 0)
        points[chosen] = np.abs(difference, out=difference).mean(1)
    return points


BETA_VAE = Metric(
    function=beta_vae,
    label="BetaVAE",
    explanation="Two images share one factor. Can a linear classifier identify it from the "
    "differences between their codes?",
    needs="pairs",
    reference="Higgins et al., β-VAE, ICLR 2017",
    failure="Codes of only K - 1 of the K factors score 1, and linear mixtures can as well.",
)
