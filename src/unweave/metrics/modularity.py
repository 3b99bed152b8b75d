"""Modularity and explicitness: one factor per code, and factors that can be decoded linearly."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, MetricError, Table, train_and_test
from unweave.metrics.mig import information_of
from unweave.metrics.tools.predictors import fit_logistic

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
    """Whether each code encodes one factor only, and how well factors are decoded linearly.

        modularity = 1/d Σ_j 1 - Σ_{k ≠ k*} I(z_j; v_k)² / [(K - 1) I(z_j; v_k*)²]
        explicitness = 1/K Σ_k mean over values of the one-vs-rest ROC-AUC of logistic regression

    where k* is the factor about which code j has most information; codes without any score 0.

    Args:
        codes: Codes `[n, d]`; if there are more than 15,000 rows, that many are sampled.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling rows.
        test_codes: Codes of test rows for explicitness (default: a third of the rows is used).
        test_factors: Factors of the test rows.
        count: Number of bins per code.

    Returns:
        `modularity`, on the training rows, or on all rows if there are at most 10,000;
        `explicitness_train` and `explicitness_test`.

    Notes:
        The regression uses standardised codes; constant codes become 0 (the reference divides by
        zero). With a single factor, a code with any information about it scores 1. The test score
        averages over the values that occur in the test rows.

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
    train_rows, test_rows = train_and_test(
        codes, factors, test_codes, test_factors, generator, TRAIN
    )
    measured = train_rows if test_codes is not None else first_rows(train_rows, test_rows)
    train, test = explicitness(train_rows, test_rows)
    return {
        "modularity": float(modularity_per_code(information_of(measured, count)).mean()),
        "explicitness_train": train,
        "explicitness_test": test,
    }


def first_rows(train_rows: Table, test_rows: Table) -> Table:
    """Return the training rows, extended with test rows to the number of the protocol."""
    missing = max(TRAIN - len(train_rows), 0)
    return Table(
        np.concatenate([train_rows.codes, test_rows.codes[:missing]]),
        np.concatenate([train_rows.factors, test_rows.factors[:missing]]),
        train_rows.columns,
    )


def modularity_per_code(information: np.ndarray) -> np.ndarray:
    """Return 1 for codes of one factor only, 0 for codes of all factors equally or none, `[d]`."""
    squared = information**2
    largest = squared.max(1)
    known = largest > 0
    others = (squared.sum(1) - largest) / np.where(known, largest, 1)
    return np.where(known, 1 - others / max(information.shape[1] - 1, 1), 0)


def explicitness(train_rows: Table, test_rows: Table) -> tuple[float, float]:
    """Return the mean ROC-AUC over factors for training and test rows."""
    mean, deviation = train_rows.codes.mean(0), train_rows.codes.std(0)
    # The standard deviation of a constant code may be a rounding error.
    deviation[np.ptp(train_rows.codes, 0) == 0] = np.inf
    x, x_test = (train_rows.codes - mean) / deviation, (test_rows.codes - mean) / deviation
    scores = []
    for classes, test_classes in zip(train_rows.factors.T, test_rows.factors.T, strict=True):
        if np.ptp(classes) > 0 and np.ptp(test_classes) > 0:
            model = fit_logistic(x, classes)
            train = area_under_roc(model.predict_proba(x), classes, model.classes_)
            test = area_under_roc(model.predict_proba(x_test), test_classes, model.classes_)
            scores.append((train, test))
    if not scores:
        raise MetricError(
            "explicitness needs a factor that varies in both the training and the test rows, but "
            f"none does, with {len(train_rows)} training and {len(test_rows)} test rows",
            subject="factors",
            value=(len(train_rows), len(test_rows)),
        )
    mean_train, mean_test = np.mean(scores, 0)
    return float(mean_train), float(mean_test)


def area_under_roc(scores: np.ndarray, classes: np.ndarray, columns: np.ndarray) -> float:
    """Compute the mean over classes of the one-vs-rest area under the ROC curve.

    The area is the probability that a row of the class scores higher than another row, with ties
    counting half. It is computed from ranks, without the curve.

    Args:
        scores: Scores `[n, C]`.
        classes: True class of every row, `[n]`.
        columns: Class of each column of the scores, `[C]`.
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
    function=modularity,
    explanation="Does each latent encode one factor only? It does not check whether all factors "
    "are encoded.",
    failure="Codes without information count too: noise that favours one factor scores high.",
)
