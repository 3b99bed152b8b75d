"""Unfairness compared with the formula of the reference and with hand computations."""

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics import MetricError, fairness
from unweave.metrics.fairness import variation


@pytest.fixture
def factors():
    return np.indices((2, 3, 4)).reshape(3, -1).T


def reference(counts):
    """The reference's mean and largest distance from counts `[classes, values]`."""
    overall = counts.sum(1) / counts.sum()
    each = counts / counts.sum(0)
    distances = np.abs(each - overall[:, None]).sum(0) / 2
    return (distances * counts.sum(0) / counts.sum()).sum(), distances.max()


def test_variation_equals_reference():
    answers = np.random.default_rng(0).integers(0, 5, (100, 7))
    counts = np.stack([np.bincount(column, minlength=5) for column in answers.T], 1)
    distances = variation(answers, 5)
    assert (distances.mean(), distances.max()) == pytest.approx(reference(counts))


def test_aligned_codes_are_fair(factors):
    scores = fairness(factors[:, [2, 0, 1]], factors)
    assert scores["fairness"] == scores["max_fairness"] == scores["worst_pair"] == 0


def test_by_hand():
    """The code is v_0 + v_1 of a 2 × 2 grid, and 1 means either.

    Whatever is guessed for 1, one value of v_1 makes all answers equal, the other makes them v_0:
    each is a quarter away from their mean.
    """
    grid = np.indices((2, 2)).reshape(2, -1).T
    scores = fairness(grid.sum(1), grid, draws=2000)
    assert scores["fairness_0_given_1"] == pytest.approx(0.25, abs=0.02)
    assert scores["fairness_1_given_0"] == pytest.approx(0.25, abs=0.02)


def test_factor_without_influence_is_fair(factors):
    scores = fairness(factors[:, 0] + 3 * factors[:, 1], factors)
    assert scores["fairness_0_given_2"] == scores["fairness_1_given_2"] == 0
    assert scores["fairness_2_given_0"] + scores["fairness_2_given_1"] > 0


def test_averages_are_over_ordered_pairs(factors):
    scores = fairness(factors @ [1, 2, 1], factors)
    pairs = [value for name, value in scores.items() if "_given_" in name]
    assert len(pairs) == 6
    assert scores["fairness"] == pytest.approx(np.mean(pairs))
    assert scores["worst_pair"] == max(pairs) > 0
    assert scores["max_fairness"] >= scores["fairness"]


def test_samples_without_interventions_are_rejected(factors, golden):
    with pytest.raises(MetricError, check=about("factors", 1)):
        fairness(factors, factors[:, 0])
    chosen = np.random.default_rng(0).integers(len(golden.codes), size=500)
    with pytest.raises(MetricError, check=about("factor 1")):
        fairness(golden.codes[chosen], golden.factors[chosen], predictor="logistic")
