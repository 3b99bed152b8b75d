"""SAP: by how much one code predicts a factor better than any other code does."""

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
from unweave.metrics.svm import LinearSVMs

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
    """Gap between the two codes that predict a factor best.

        SAP = 1/K Σ_k S_j1,k - S_j2,k

    with S_jk the test accuracy of a linear support vector machine that predicts factor k from
    code j alone, and j1, j2 the best and the second best code.

    Args:
        codes: `[n, d]`; more than 15,000 rows are drawn from.
        factors: `[n, K]`.
        seed: Draws the rows.
        test_codes: Rows to test on; without them, a third of the rows.
        test_factors: Their factors.
        continuous: Take the squared correlation of code and factor for S, on up to 10,000 rows.

    Returns:
        `sap`.

    Notes:
        The machines are those of scikit-learn's `LinearSVC(C=0.01, class_weight="balanced")`,
        solved to the optimum instead of to a tolerance. A single code is compared with a constant.

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
        learned, tested = train_and_test(codes, factors, test_codes, test_factors, generator)
        scores = accuracies(learned, tested)
    second, first = np.sort(scores, 0)[-2:]
    return {"sap": float((first - second).mean())}


def accuracy_matrix(
    codes: Any, factors: Any, seed: int = 0, *, test_codes: Any = None, test_factors: Any = None
) -> np.ndarray:
    """Test accuracy of predicting every factor from every single code.

    Returns:
        `[d, K]`. Factors with one value have no column.
    """
    generator = numpy_rng(seed)
    learned, tested = train_and_test(codes, factors, test_codes, test_factors, generator)
    return accuracies(learned, tested)[: learned.codes.shape[1]]


def accuracies(learned: Table, tested: Table) -> np.ndarray:
    """The accuracy matrix; a single code is followed by a constant one, `[max(d, 2), K]`."""
    x, x_test = learned.codes.astype(np.float64), tested.codes.astype(np.float64)
    if x.shape[1] == 1:
        x, x_test = np.pad(x, ((0, 0), (0, 1))), np.pad(x_test, ((0, 0), (0, 1)))
    scores = [
        [
            (machines.predict(k, x_test[:, j]) == tested.factors[:, k]).mean()
            for k in range(learned.factors.shape[1])
        ]
        for j, machines in enumerate(LinearSVMs.fit(code, learned.factors) for code in x.T)
    ]
    return np.array(scores)


def squared_correlations(codes: Any, factors: Any, generator: np.random.Generator) -> np.ndarray:
    """Squared correlation of every code with every factor that varies, `[max(d, 2), K]`."""
    x, v = check_codes(codes).astype(np.float64), check_factors(factors)
    check_rows(x, v)
    chosen = choose_rows(len(x), 10_000, generator)
    x, v = (x, v) if chosen is None else (x[chosen], v[chosen])
    x, v = x - x.mean(0), (v - v.mean(0))[:, np.ptp(v, 0) > 0]
    if v.shape[1] == 0:
        raise MetricError("factors must vary, but each of them has the same value in every row")
    x = np.pad(x, ((0, 0), (0, 1))) if x.shape[1] == 1 else x
    degrees = len(x) - 1
    variance, variance_v = (x**2).sum(0) / degrees, (v**2).sum(0) / degrees
    shared = (x.T @ v / degrees) ** 2
    varies = variance > 1e-12
    return np.where(
        varies[:, None], shared / np.where(varies, variance, 1)[:, None] / variance_v, 0
    )


SAP = Metric(
    name="sap",
    label="SAP",
    explanation="For each factor: how much better does the best single latent predict it than "
    "the second best?",
    function=sap,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="factors",
    cost="seconds",
    reference=(
        "Kumar et al., Variational Inference of Disentangled Latent Concepts from Unlabeled "
        "Observations, arXiv:1711.00848"
    ),
    failure="A line cannot find a factor's middle values: a perfect dSprites code scores 0.245.",
)
