"""Predictors of factors from codes: logistic regression and boosted trees, as in the protocols.

Every predictor has scikit-learn's `predict`; trees also have `feature_importances_`.
"""

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.errors import UnknownNameError
from unweave.metrics.base import Table

__all__ = ["ENGINES", "PREDICTORS", "accuracies", "accuracy", "fit", "fit_factors", "fit_logistic"]

PREDICTORS = ("logistic", "trees")
ENGINES = ("fast", "sklearn")


@dataclass(frozen=True)
class Constant:
    """Constant predictor, used if there is only one class or no code."""

    answer: int
    feature_importances_: np.ndarray

    def predict(self, codes: np.ndarray) -> np.ndarray:
        return np.full(len(codes), self.answer)


def fit(
    kind: str, codes: np.ndarray, classes: np.ndarray, seed: int = 0, engine: str = "fast"
) -> Any:
    """Fit a predictor of a class from codes.

    Args:
        kind: `"logistic"`: logistic regression, with one of ten regularisation strengths chosen by
            5-fold cross-validation; `"trees"`: gradient-boosted trees.
        codes: Codes `[n, d]`; if d is 0, the most frequent class is predicted.
        classes: Classes `[n]`.
        seed: Random seed for ties between splits of trees.
        engine: Implementation of the trees: `"fast"` (default), or `"sklearn"` as published.
    """
    if kind not in PREDICTORS:
        raise UnknownNameError("predictor", kind, PREDICTORS)
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    if codes.shape[1] == 0 or (classes == classes[0]).all():
        return Constant(int(np.bincount(classes).argmax()), np.zeros(codes.shape[1]))
    if kind == "logistic":
        return _fit_cross_validated(codes, classes)
    if engine == "sklearn":
        from sklearn.ensemble import GradientBoostingClassifier

        return GradientBoostingClassifier(random_state=seed % 2**32).fit(codes, classes)
    from unweave.metrics.tools.trees import BoostedTrees

    return BoostedTrees.fit(codes, classes, seed)


def _fit_cross_validated(codes: np.ndarray, classes: np.ndarray) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import KFold

    folds = KFold(n_splits=min(5, len(codes)))
    with warnings.catch_warnings():
        # The protocol stops after 100 iterations. Defaults that will change are not used.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return LogisticRegressionCV(Cs=10, cv=folds, scoring="accuracy").fit(codes, classes)


def fit_logistic(points: np.ndarray, classes: np.ndarray) -> Any:
    """Fit scikit-learn's `LogisticRegression` with default settings (at most 100 iterations).

    Args:
        points: Inputs `[n, d]`.
        classes: Classes `[n]`, at least two different ones.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    # Such narrow matrices gain nothing from threads, which wait for each other on a busy machine.
    with threadpool_limits(1, "blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression().fit(points, classes)


def fit_factors(kind: str, rows: Table, seeds: int | Sequence[int], engine: str) -> list[Any]:
    """Fit a predictor for each factor, with one seed or one each; trees in several threads."""
    count = rows.factors.shape[1]
    seeds = seeds if isinstance(seeds, Sequence) else [seeds] * count

    def fit_one(factor: int) -> Any:
        return fit(kind, rows.codes, rows.factors[:, factor], seeds[factor], engine)

    if kind != "trees":
        return [fit_one(factor) for factor in range(count)]
    # Factors with the most values come first, so that no thread starts a long fit at the end.
    longest = np.argsort(-rows.sizes, kind="stable").tolist()
    with ThreadPoolExecutor(_cores()) as pool:
        fitted = dict(zip(longest, pool.map(fit_one, longest), strict=True))
    return [fitted[factor] for factor in range(count)]


def _cores() -> int:
    """Return the number of cores available to this process."""
    usable = getattr(os, "sched_getaffinity", None)  # only on Linux
    return len(usable(0)) if usable else os.cpu_count() or 1


def accuracy(fitted: Any, codes: np.ndarray, classes: np.ndarray) -> float:
    """Return the share of rows whose class is predicted correctly."""
    return float((fitted.predict(codes) == classes).mean())


def accuracies(fitted: Sequence[Any], rows: Table) -> np.ndarray:
    """Return the accuracy of the predictor of each factor, `[K]`."""
    columns = zip(fitted, rows.factors.T, strict=True)
    return np.array([accuracy(predictor, rows.codes, classes) for predictor, classes in columns])
