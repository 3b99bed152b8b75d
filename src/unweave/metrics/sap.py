"""SAP: accuracy gap between the two codes that predict a factor best."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import (
    Metric,
    MetricError,
    Table,
    check_codes,
    check_factors,
    check_rows,
    choose_rows,
    train_and_test,
)
from unweave.metrics.tools.discretise import gap
from unweave.metrics.tools.svm import LinearSVMs

__all__ = ["SAP", "accuracy_matrix", "sap"]


def sap(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    test_codes: Any = None,
    test_factors: Any = None,
    continuous: bool = False,
) -> dict[str, float]:
    """Accuracy gap between the two codes that predict a factor best.

        SAP = 1/K Σ_k S_j1,k - S_j2,k

    where S_jk is the test accuracy of a linear support vector machine that predicts factor k from
    code j alone, and j1, j2 are the best and second best code.

    Args:
        codes: Codes `[n, d]`; if there are more than 15,000 rows, that many are sampled.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling rows.
        test_codes: Codes of separate test rows (default: a third of the rows is used).
        test_factors: Factors of the test rows.
        continuous: Use the squared correlation of code and factor as S, on up to 10,000 rows.

    Returns:
        `sap`.

    Notes:
        The classifiers are those of scikit-learn's `LinearSVC(C=0.01, class_weight="balanced")`,
        but solved exactly rather than up to a tolerance. A single code is compared with a
        constant.

    References:
        Kumar et al., Variational Inference of Disentangled Latent Concepts from Unlabeled
        Observations, arXiv:1711.00848.

    Example:
        >>> grid = np.stack(np.meshgrid(range(2), range(2), indexing="ij"), -1).reshape(-1, 2)
        >>> round(sap(grid.astype(float), grid)["sap"], 2)
        0.5
    """
    generator = numpy_rng(seed)
    if continuous:
        scores = squared_correlations(codes, factors, generator)
    else:
        train_rows, test_rows = train_and_test(codes, factors, test_codes, test_factors, generator)
        scores = accuracies(train_rows, test_rows)
    return {"sap": float(gap(scores).mean())}


def accuracy_matrix(
    codes: Any, factors: Any, seed: int = 0, *, test_codes: Any = None, test_factors: Any = None
) -> np.ndarray:
    """Return the test accuracy of predicting every factor from every single code.

    Returns:
        `[d, K]`. Constant factors have no column.
    """
    generator = numpy_rng(seed)
    train_rows, test_rows = train_and_test(codes, factors, test_codes, test_factors, generator)
    return accuracies(train_rows, test_rows)[: train_rows.codes.shape[1]]


def accuracies(train_rows: Table, test_rows: Table) -> np.ndarray:
    """Return the accuracy matrix `[max(d, 2), K]`; a constant is appended to a single code."""
    x, x_test = train_rows.codes.astype(np.float64), test_rows.codes.astype(np.float64)
    if x.shape[1] == 1:
        x, x_test = np.pad(x, ((0, 0), (0, 1))), np.pad(x_test, ((0, 0), (0, 1)))
    scores = [
        [
            (machines.predict(k, x_test[:, j]) == test_rows.factors[:, k]).mean()
            for k in range(train_rows.factors.shape[1])
        ]
        for j, machines in enumerate(LinearSVMs.fit(code, train_rows.factors) for code in x.T)
    ]
    return np.array(scores)


def squared_correlations(codes: Any, factors: Any, generator: np.random.Generator) -> np.ndarray:
    """Return the squared correlation of every code and varying factor, `[max(d, 2), K]`."""
    x, v = check_codes(codes).astype(np.float64), check_factors(factors)
    check_rows(x, factors=v)
    chosen = choose_rows(len(x), generator)
    x, v = x[chosen], v[chosen]
    x, v = x - x.mean(0), (v - v.mean(0))[:, np.ptp(v, 0) > 0]
    if v.shape[1] == 0:
        raise MetricError(
            "factors must vary, but all of them are constant",
            subject="factors",
        )
    x = np.pad(x, ((0, 0), (0, 1))) if x.shape[1] == 1 else x
    degrees = len(x) - 1
    variance, variance_v = (x**2).sum(0) / degrees, (v**2).sum(0) / degrees
    shared = (x.T @ v / degrees) ** 2
    varies = variance > 1e-12
    return np.where(
        varies[:, None], shared / np.where(varies, variance, 1)[:, None] / variance_v, 0
    )


SAP = Metric(
    function=sap,
    label="SAP",
    explanation="For each factor: how much better does the best single latent predict it than "
    "the second best?",
    failure="Linear classifiers miss middle values: a perfect code of dSprites scores only 0.245.",
)
