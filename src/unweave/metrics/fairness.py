"""Unfairness: how much predictions of one factor depend on the value of another."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, MetricError, table
from unweave.metrics.tools.grouped_rows import interventions
from unweave.metrics.tools.predictors import fit_factors

__all__ = ["FAIRNESS", "fairness"]


def fairness(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    draws: int = 100,
    train: int = 10_000,
    predictor: str = "trees",
    engine: str = "fast",
) -> dict[str, float]:
    """Total variation between predictions for one sensitive value and for all values.

        U_ks = mean_c TV(p(ŷ_k | do(v_s = c)), mean_c' p(ŷ_k | do(v_s = c')))
        score = mean of U_ks over targets k and sensitive factors s ≠ k

    The score measures unfairness: 0 is fair.

    Args:
        codes: Codes `[n, d]`, mean or sampled.
        factors: Factors `[n, K]`, at least two of which vary.
        seed: Random seed for sampling training rows and interventions.
        draws: Number of rows that are set to every sensitive value.
        train: Largest number of training rows.
        predictor: `"trees"` (default) or `"logistic"`.
        engine: Implementation of the trees: `"fast"` (default), or `"sklearn"` as published.

    Returns:
        `fairness`, the headline score of the reference (`mean_fairness:mean_pred:mean_sens`);
        `max_fairness`, with the maximum over values c instead of the mean in each U_ks;
        `worst_pair`, the largest U_ks; and `fairness_k_given_s`, U_ks.

    Notes:
        Interventions are rows that differ only in the sensitive factor. A full grid contains all
        of them; a sample with too few of them raises an error.

    References:
        Locatello et al., On the Fairness of Disentangled Representations, arXiv:1905.13662.

    Example:
        >>> factors = np.indices((3, 4, 5)).reshape(3, -1).T
        >>> round(fairness(factors, factors)["fairness"], 2)
        0.0
        >>> round(fairness(factors @ [[1], [0], [1]], factors)["fairness"], 2)
        0.14
    """
    rows, generator = table(codes, factors), numpy_rng(seed)
    num_factors = rows.factors.shape[1]
    if num_factors < 2:
        raise MetricError.expected("factors", "have at least 2 that vary", num_factors)
    pairs = ~np.eye(num_factors, dtype=bool)
    chosen = {(k, s): interventions(rows, s, draws, generator) for k, s in np.argwhere(pairs)}
    learned = rows.rows(generator.integers(len(rows), size=train)) if rows.is_grid else rows
    fitted = fit_factors(predictor, learned.draw(generator, train), seed, engine)
    mean, largest = np.zeros((2, num_factors, num_factors))
    for (k, s), numbers in chosen.items():
        answers = fitted[k].predict(rows.codes[numbers.ravel()]).reshape(numbers.shape)
        distances = variation(answers, int(rows.sizes[k]))
        mean[k, s], largest[k, s] = distances.mean(), distances.max()
    return {
        "fairness": float(mean[pairs].mean()),
        "max_fairness": float(largest[pairs].mean()),
        "worst_pair": float(mean[pairs].max()),
        **{
            f"fairness_{rows.columns[k]}_given_{rows.columns[s]}": float(mean[k, s])
            for k, s in np.argwhere(pairs)
        },
    }


def variation(answers: np.ndarray, num_classes: int) -> np.ndarray:
    """Compute the total variation between predictions `[draws, values]` for each value and all.

    Example:
        >>> variation(np.array([[0, 0, 1], [0, 1, 1]]), 2)
        array([0.5, 0. , 0.5])
    """
    counts = np.stack([np.bincount(column, minlength=num_classes) for column in answers.T], 1)
    shares = counts / len(answers)
    return np.abs(shares - shares.mean(1, keepdims=True)).sum(0) / 2


FAIRNESS = Metric(
    function=fairness,
    explanation="How much do predictions of one factor depend on another that should not matter? "
    "The score measures unfairness: 0 is fair.",
    higher_is_better=False,
    needs="pairs",
    cost="minutes",
    failure="A predictor that always gives the same answer is perfectly fair.",
)
