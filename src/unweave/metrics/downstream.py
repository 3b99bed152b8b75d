"""Downstream accuracy: how well factors are predicted from codes, with few and many labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, MetricError, Table, train_and_test
from unweave.metrics.tools.predictors import PREDICTORS, accuracies, fit_factors

__all__ = ["DOWNSTREAM", "downstream"]

SIZES = (10, 100, 1_000, 10_000)
FEW = 100


def downstream(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    test_codes: Any = None,
    test_factors: Any = None,
    predictors: Sequence[str] = PREDICTORS,
    sizes: Sequence[int] = SIZES,
    test: int = 5_000,
    engine: str = "fast",
) -> dict[str, float]:
    """Test accuracy of predicting each factor from the codes, for several training set sizes.

        accuracy(n) = mean_k P(f_k(z) = v_k),    f_k trained on n rows
        efficiency = accuracy(100) / accuracy(10,000)

    Args:
        codes: Codes `[n, d]`, mean or sampled.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling 15,000 rows if there are more.
        test_codes: Codes of separate test rows; all other rows are then used for training.
        test_factors: Factors of the test rows.
        predictors: `"logistic"` (logistic regression, regularisation strength chosen by 5-fold
            cross-validation), `"trees"` (gradient boosting), or both (default).
        sizes: Training set sizes.
        test: Number of test rows.
        engine: Implementation of the trees: `"fast"` (default), or `"sklearn"` as published.

    Returns:
        `downstream`, the mean accuracy of the last predictor (trees by default) at the largest
        size. For each predictor p and size n: `p_accuracy_n`, the mean over factors; `p_worst_n`,
        the smallest; `p_accuracy_n_factor_k` for each factor; and `p_efficiency`.

    Notes:
        The reference samples new rows for every size. Here smaller training sets are the first
        rows of the largest, and all sizes share the test rows, so that they are comparable. If
        there are fewer rows than the largest size, all are used instead, and the efficiency
        compares 100 rows with all rows.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> factors = rng.integers(0, 3, (1500, 2))
        >>> codes = factors + 0.3 * rng.normal(size=(1500, 2))
        >>> scores = downstream(codes, factors, predictors=["logistic"])
        >>> [round(scores[f"logistic_accuracy_{n}"], 2) for n in (10, 100, 1000)]
        [0.83, 0.93, 0.94]
    """
    if not predictors:
        raise MetricError.expected("predictors", "have at least one entry", predictors)
    if not sizes or min(sizes) < 1:
        raise MetricError.expected("sizes", "be one or more numbers of at least 1", sizes)
    train_rows, test_rows = train_and_test(
        codes, factors, test_codes, test_factors, numpy_rng(seed), max(sizes), test
    )
    possible = sorted({min(size, len(train_rows)) for size in sizes})
    scores = {}
    for predictor in predictors:
        found = {}
        for size in possible:
            fitted = fit_factors(predictor, train_rows.rows(slice(size)), seed, engine)
            found[size] = accuracies(fitted, test_rows)
        scores.update(_named(predictor, found, train_rows))
    return {"downstream": scores[f"{predictors[-1]}_accuracy_{possible[-1]}"], **scores}


def _named(predictor: str, found: dict[int, np.ndarray], rows: Table) -> dict[str, float]:
    """Return the named scores of one predictor from its accuracies for each size, `[K]` each."""
    scores = {}
    for size, values in found.items():
        scores[f"{predictor}_accuracy_{size}"] = float(values.mean())
        scores[f"{predictor}_worst_{size}"] = float(values.min())
        for factor, value in zip(rows.columns, values, strict=True):
            scores[f"{predictor}_accuracy_{size}_factor_{factor}"] = float(value)
    few, largest = found.get(FEW), found[max(found)]
    if few is not None and largest.mean() > 0:
        scores[f"{predictor}_efficiency"] = float(few.mean() / largest.mean())
    return scores


DOWNSTREAM = Metric(
    function=downstream,
    explanation="How well are factors predicted after training on few or many rows?",
    cost="minutes",
    failure="Entangled codes that keep all information score as well as disentangled ones.",
)
