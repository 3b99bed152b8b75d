"""Logistic regression as the protocols have it."""

import warnings
from typing import Any

import numpy as np

__all__ = ["fit_logistic"]


def fit_logistic(points: np.ndarray, classes: np.ndarray) -> Any:
    """scikit-learn's `LogisticRegression` as it comes; if 100 iterations do not do, they must.

    Args:
        points: `[n, d]`.
        classes: `[n]`, of two kinds at least.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    # Matrices this narrow gain nothing from threads, which on a busy machine wait for each other.
    with threadpool_limits(1, "blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression().fit(points, classes)
