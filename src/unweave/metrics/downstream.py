"""Downstream accuracy: how well, and from how few labels, factors are predicted from codes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, MetricError, Table, train_and_test
from unweave.metrics.predictors import PREDICTORS, accuracies

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
    """Test accuracy of predicting each factor from the codes, learned from ever more rows.

        accuracy(n) = mean_k P(f_k(z) = v_k),    f_k learned from n rows
        efficiency = accuracy(100) / accuracy(10,000)

    Args:
        codes: `[n, d]`, mean or sampled.
        factors: `[n, K]`.
        seed: Draws rows where there are more than 15,000.
        test_codes: Rows to test on, where they are given apart; then all others train.
        test_factors: Their factors.
        predictors: `"logistic"` (regression, its strength chosen by 5-fold cross-validation) or
            `"trees"` (gradient boosting), or both.
        sizes: How many rows to learn from.
        test: How many rows to test on.
        engine: Of the trees: `"fast"`, or `"sklearn"`, the published one.

    Returns:
        `downstream`, the mean accuracy at the largest size of the last predictor (the trees); for
        each predictor p and size n `p_accuracy_n`, the mean over factors, `p_worst_n`, the
        smallest, and `p_accuracy_n_factor_k`; and `p_efficiency`, the statistical efficiency.

    Notes:
        The reference draws new rows for every size; here the smaller sets are the first rows of
        the largest, and the rows to test on are the same, so that sizes are compared on equal
        terms. Where fewer rows are given than the largest size, it is replaced by their number,
        and the efficiency is that of 100 rows against all.

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
    if not predictors or not sizes or min(sizes) < 1:
        raise MetricError("downstream needs at least one predictor and sizes of at least one row")
    learned, tested = train_and_test(
        codes, factors, test_codes, test_factors, numpy_rng(seed), max(sizes), test
    )
    scores = {}
    for predictor in predictors:
        found = {
            size: accuracies(predictor, learned.rows(slice(size)), tested, seed, engine)
            for size in _possible(sizes, len(learned))
        }
        scores.update(_named(predictor, found, learned))
    largest = max(_possible(sizes, len(learned)))
    return {"downstream": scores[f"{predictors[-1]}_accuracy_{largest}"], **scores}


def _possible(sizes: Sequence[int], rows: int) -> list[int]:
    return sorted({min(size, rows) for size in sizes})


def _named(predictor: str, found: dict[int, np.ndarray], rows: Table) -> dict[str, float]:
    """The scores of one predictor from its accuracies per size, `[K]` each."""
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
    name="downstream",
    explanation="How well factors are predicted from the codes, learned from few rows or many.",
    function=downstream,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="factors",
    cost="minutes",
    reference="Locatello et al., Challenging Common Assumptions, arXiv:1811.12359",
    failure="Entangled codes that keep all information are predicted from as well as others.",
)
