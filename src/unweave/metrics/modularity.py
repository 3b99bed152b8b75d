"""Modularity and explicitness: one factor per code, and factors that are easy to read off."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, MetricError, Table, train_and_test
from unweave.metrics.logistic import fit_logistic
from unweave.metrics.mig import information_of

__all__ = ["MODULARITY", "modularity"]

TRAIN = 10_000


def modularity(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    test_codes: Any = None,
    test_factors: Any = None,
    count: int = 20,
) -> dict[str, float]:
    """How far each code knows one factor only; and how well factors are read off linearly.

        modularity = 1/d Σ_j 1 - Σ_{k ≠ k*} I(z_j; v_k)² / [(K - 1) I(z_j; v_k*)²]
        explicitness = 1/K Σ_k mean over values of the one-vs-rest ROC-AUC of logistic regression

    with k* the factor that code j knows most of; a code that knows none counts 0.

    Args:
        codes: `[n, d]`; more than 15,000 rows are drawn from.
        factors: `[n, K]`.
        seed: Draws the rows.
        test_codes: Rows to test explicitness on; without them, a third of the rows.
        test_factors: Their factors.
        count: Bins per code.

    Returns:
        `modularity`, on the rows to learn from or on all if these are at most 10,000;
        `explicitness_train` and `explicitness_test`.

    Notes:
        The regression sees standardised codes, of which constant ones are 0 (the reference divides
        by zero). With a single factor, a code that knows it counts 1. The test averages over the
        values that occur in it.

    References:
        Ridgeway and Mozer, Learning Deep Disentangled Embeddings with the F-Statistic Loss,
        arXiv:1802.05312.

    Example:
        >>> grid = np.stack(np.meshgrid(range(4), range(5), indexing="ij"), -1).reshape(-1, 2)
        >>> mixed = grid @ np.array([[1.0, 0.5], [0.0, 1.0]])
        >>> {name: round(score, 4) for name, score in modularity(mixed, grid).items()}
        {'modularity': 0.6887, 'explicitness_train': 1.0, 'explicitness_test': 1.0}
    """
    generator = numpy_rng(seed)
    learned, tested = train_and_test(codes, factors, test_codes, test_factors, generator, TRAIN)
    measured = learned if test_codes is not None else first_rows(learned, tested)
    train, test = explicitness(learned, tested)
    return {
        "modularity": float(modularity_per_code(information_of(measured, count)).mean()),
        "explicitness_train": train,
        "explicitness_test": test,
    }


def first_rows(learned: Table, tested: Table) -> Table:
    """The rows to learn from, filled up to the protocol's number with rows to test on."""
    missing = max(TRAIN - len(learned), 0)
    return Table(
        np.concatenate([learned.codes, tested.codes[:missing]]),
        np.concatenate([learned.factors, tested.factors[:missing]]),
        learned.columns,
    )


def modularity_per_code(information: np.ndarray) -> np.ndarray:
    """1 for a code that knows one factor only, 0 for one that knows all alike or none, `[d]`."""
    squared = information**2
    largest = squared.max(1)
    known = largest > 0
    others = (squared.sum(1) - largest) / np.where(known, largest, 1)
    return np.where(known, 1 - others / max(information.shape[1] - 1, 1), 0)


def explicitness(learned: Table, tested: Table) -> tuple[float, float]:
    """Mean ROC-AUC over factors, on the rows to learn from and on those to test on."""
    mean, deviation = learned.codes.mean(0), learned.codes.std(0)
    # A constant code's deviation may be a rounding error.
    deviation[np.ptp(learned.codes, 0) == 0] = np.inf
    x, x_test = (learned.codes - mean) / deviation, (tested.codes - mean) / deviation
    scores = [
        _area_of_factor(x, classes, x_test, test_classes)
        for classes, test_classes in zip(learned.factors.T, tested.factors.T, strict=True)
        if np.ptp(classes) > 0 and np.ptp(test_classes) > 0
    ]
    if not scores:
        raise MetricError(
            f"explicitness needs rows with different values to learn from and to test on, but "
            f"{len(learned)} and {len(tested)} rows have one value of each factor"
        )
    train, test = np.mean(scores, 0)
    return float(train), float(test)


def _area_of_factor(
    x: np.ndarray, classes: np.ndarray, x_test: np.ndarray, test_classes: np.ndarray
) -> tuple[float, float]:
    model = fit_logistic(x, classes)
    return (
        area_under_roc(model.predict_proba(x), classes, model.classes_),
        area_under_roc(model.predict_proba(x_test), test_classes, model.classes_),
    )


def area_under_roc(scores: np.ndarray, classes: np.ndarray, columns: np.ndarray) -> float:
    """Mean over classes of the one-vs-rest area under the ROC curve.

    The area is the chance that a row of the class scores higher than another row, ties counting
    half, which ranks give without drawing the curve.

    Args:
        scores: `[n, C]`.
        classes: The true class of every row, `[n]`.
        columns: The class that each column of the scores belongs to, `[C]`.
    """
    from scipy.stats import rankdata

    member = classes[:, None] == columns
    inside = member.sum(0)
    outside = len(classes) - inside
    ranks = np.where(member, rankdata(scores, axis=0), 0).sum(0)
    both = (inside > 0) & (outside > 0)
    areas = (ranks - inside * (inside + 1) / 2)[both] / (inside * outside)[both]
    return float(areas.mean())


MODULARITY = Metric(
    name="modularity",
    explanation="Does each latent know about one factor only? Whether all factors are known is "
    "not asked.",
    function=modularity,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="factors",
    cost="seconds",
    reference=(
        "Ridgeway and Mozer, Learning Deep Disentangled Embeddings with the F-Statistic Loss, "
        "arXiv:1802.05312"
    ),
    failure="Codes that know nothing count too: noise that leans to one factor scores high.",
)
