"""Predictors of a factor from codes: what the downstream scores learn."""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from unweave.metrics.base import MetricError, Table

__all__ = [
    "PREDICTORS",
    "Predictor",
    "accuracies",
    "accuracy",
    "fit",
    "fit_factors",
    "importances",
]

PREDICTORS = ("logistic", "trees")
ENGINES = ("fast", "sklearn")


class Predictor(Protocol):
    """Something that was fitted to codes."""

    def predict(self, codes: np.ndarray) -> np.ndarray:
        """The class of every row of codes `[n, d]`, `[n]`."""


@dataclass(frozen=True)
class Constant:
    """The predictor where there is nothing to tell apart, or nothing to tell it by."""

    answer: int

    def predict(self, codes: np.ndarray) -> np.ndarray:
        return np.full(len(codes), self.answer)


def fit(
    kind: str, codes: np.ndarray, classes: np.ndarray, seed: int = 0, engine: str = "fast"
) -> Predictor:
    """Learn to predict a class from codes.

    Args:
        kind: `"logistic"`: logistic regression, its strength of ten chosen by 5-fold
            cross-validation; `"trees"`: gradient-boosted trees.
        codes: `[n, d]`; without codes the most frequent class is predicted.
        classes: `[n]`.
        seed: For ties among splits of trees.
        engine: Of the trees: `"fast"`, or `"sklearn"` for the published protocol's own.
    """
    if kind not in PREDICTORS:
        raise MetricError(f"a predictor is one of {', '.join(PREDICTORS)}, not {kind!r}")
    if engine not in ENGINES:
        raise MetricError(f"an engine is one of {', '.join(ENGINES)}, not {engine!r}")
    if codes.shape[1] == 0 or (classes == classes[0]).all():
        return Constant(int(np.bincount(classes).argmax()))
    if kind == "logistic":
        return _fit_logistic(codes, classes)
    if engine == "sklearn":
        from sklearn.ensemble import GradientBoostingClassifier

        return GradientBoostingClassifier(random_state=seed % 2**32).fit(codes, classes)
    from unweave.metrics.trees import BoostedTrees

    return BoostedTrees.fit(codes, classes, seed)


def _fit_logistic(codes: np.ndarray, classes: np.ndarray) -> Predictor:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import KFold

    folds = KFold(n_splits=min(5, len(codes)))
    with warnings.catch_warnings():
        # The protocol stops after 100 iterations; defaults that will change are not used.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return LogisticRegressionCV(Cs=10, cv=folds, scoring="accuracy").fit(codes, classes)


def fit_factors(kind: str, rows: Table, seed: int, engine: str) -> list[Predictor]:
    """A predictor for each factor of a table; trees grow several at a time."""

    def fit_one(factor: int) -> Predictor:
        return fit(kind, rows.codes, rows.factors[:, factor], seed, engine)

    factors = range(rows.factors.shape[1])
    if kind != "trees":
        return [fit_one(factor) for factor in factors]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(fit_one, factors))


def accuracy(fitted: Predictor, codes: np.ndarray, classes: np.ndarray) -> float:
    """The share of rows whose class is predicted."""
    return float((fitted.predict(codes) == classes).mean())


def accuracies(kind: str, train: Table, test: Table, seed: int, engine: str) -> np.ndarray:
    """Test accuracy of each factor, `[K]`."""
    fitted = fit_factors(kind, train, seed, engine)
    return np.array([accuracy(f, test.codes, test.factors[:, k]) for k, f in enumerate(fitted)])


def importances(fitted: Any, num_codes: int) -> np.ndarray:
    """How much each code counts in fitted trees, `[d]`; nothing does where none were needed."""
    if isinstance(fitted, Constant):
        return np.zeros(num_codes)
    return (
        fitted.feature_importances_
        if hasattr(fitted, "feature_importances_")
        else fitted.importances
    )
