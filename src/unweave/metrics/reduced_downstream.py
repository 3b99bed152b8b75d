"""Reduced downstream accuracy: prediction of a factor without its most important codes."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, MetricError, Table, train_and_test
from unweave.metrics.tools.predictors import accuracies, fit, fit_factors

__all__ = ["REDUCED_DOWNSTREAM", "reduced_downstream"]


def reduced_downstream(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    test_codes: Any = None,
    test_factors: Any = None,
    removed: int = 1,
    train: int = 10_000,
    test: int = 5_000,
    predictor: str = "trees",
    engine: str = "fast",
) -> dict[str, float]:
    """Test accuracy for each factor after its most important codes are removed.

        A_ik = accuracy of predicting v_i from the codes without the most important ones for v_k
        score = 1/K Σ_k A_kk

    If codes are disentangled, no other code encodes the factor: A_kk falls to chance level, while
    A_ik does not change for the other factors.

    Args:
        codes: Codes `[n, d]`, mean or sampled.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling rows if there are more than `train + test`.
        test_codes: Codes of separate test rows; all other rows are then used for training.
        test_factors: Factors of the test rows.
        removed: Number of codes to remove, one after the other, each time the most important in
            boosted trees on the remaining codes (as in DCI).
        train: Number of training rows.
        test: Number of test rows.
        predictor: `"trees"` (default) or `"logistic"`.
        engine: Implementation of the trees: `"fast"` (default), or `"sklearn"` as published.

    Returns:
        `reduced_downstream`, the remaining accuracy; `plain_accuracy`, with all codes; `drop`,
        their difference; `other_accuracy`, the mean of A_ik over i ≠ k (if there are several
        factors); and `accuracy_i_without_k`, A_ik.

    Notes:
        disentanglement_lib reports only A, and its only setting is that of its tests (100 training
        and 100 test rows). Here the other downstream scores determine the numbers of rows. If
        no code is left, the most frequent value is predicted.

    References:
        Locatello et al., disentanglement_lib, `reduced_downstream_task`; Eastwood and Williams,
        ICLR 2018, for the importances.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> factors = rng.integers(0, 2, (600, 2))
        >>> codes = factors + 0.1 * rng.normal(size=(600, 2))
        >>> scores = reduced_downstream(codes, factors)
        >>> {name: round(score, 1) for name, score in scores.items()}
        {'reduced_downstream': 0.5, 'plain_accuracy': 1.0, 'drop': 0.5, 'other_accuracy': 1.0,
        'accuracy_0_without_0': 0.5, 'accuracy_1_without_0': 1.0, 'accuracy_0_without_1': 1.0,
        'accuracy_1_without_1': 0.5}
    """
    if removed < 1:
        raise MetricError.expected("removed", "be at least 1", removed)
    train_rows, test_rows = train_and_test(
        codes, factors, test_codes, test_factors, numpy_rng(seed), train, test
    )
    plain = accuracies(fit_factors(predictor, train_rows, seed, engine), test_rows)
    num_factors = len(plain)
    reduced = np.empty((num_factors, num_factors))
    for k in range(num_factors):
        remaining = remaining_codes(train_rows, k, removed, seed, engine)
        fitted = fit_factors(predictor, _with_codes(train_rows, remaining), seed, engine)
        reduced[:, k] = accuracies(fitted, _with_codes(test_rows, remaining))
    own = reduced.diagonal()
    others = reduced[~np.eye(num_factors, dtype=bool)]
    return {
        "reduced_downstream": float(own.mean()),
        "plain_accuracy": float(plain.mean()),
        "drop": float((plain - own).mean()),
        **({"other_accuracy": float(others.mean())} if num_factors > 1 else {}),
        **{
            f"accuracy_{train_rows.columns[i]}_without_{train_rows.columns[k]}": float(
                reduced[i, k]
            )
            for k in range(num_factors)
            for i in range(num_factors)
        },
    }


def remaining_codes(rows: Table, factor: int, removed: int, seed: int, engine: str) -> np.ndarray:
    """Return the numbers of the codes that remain after removing the most important ones."""
    remaining = np.arange(rows.codes.shape[1])
    for _ in range(min(removed, len(remaining))):
        trees = fit("trees", rows.codes[:, remaining], rows.factors[:, factor], seed, engine)
        remaining = np.delete(remaining, trees.feature_importances_.argmax())
    return remaining


def _with_codes(rows: Table, remaining: np.ndarray) -> Table:
    return Table(rows.codes[:, remaining], rows.factors, rows.columns)


REDUCED_DOWNSTREAM = Metric(
    function=reduced_downstream,
    explanation="How well is a factor predicted after its most important latent is removed? "
    "Hardly, if the codes are disentangled.",
    higher_is_better=False,
    cost="minutes",
    reference="Locatello et al., disentanglement_lib, reduced_downstream_task",
    failure="Codes without any information score best; compare it with the plain accuracy.",
)
