"""Reduced downstream accuracy: disentangled codes lose one factor, entangled ones none."""

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics import MetricError, reduced_downstream


@pytest.fixture
def factors():
    return np.random.default_rng(0).integers(0, 4, (900, 2))


def noisy(codes):
    return codes + 0.05 * np.random.default_rng(1).normal(size=codes.shape)


def test_removing_the_only_code_of_a_factor(factors):
    scores = reduced_downstream(noisy(factors[:, [1, 0]]), factors)
    assert scores["plain_accuracy"] == 1
    assert scores["reduced_downstream"] < 0.35
    assert scores["other_accuracy"] == 1
    assert scores["drop"] == pytest.approx(1 - scores["reduced_downstream"])
    assert scores["accuracy_1_without_0"] == scores["accuracy_0_without_1"] == 1


def test_copies_preserve_a_factor_until_removed(factors):
    copies = noisy(factors[:, [0, 1, 0, 1]])
    assert reduced_downstream(copies, factors)["reduced_downstream"] == 1
    assert reduced_downstream(copies, factors, removed=2)["reduced_downstream"] < 0.35


def test_most_frequent_value_is_predicted_without_codes(factors):
    scores = reduced_downstream(noisy(factors[:, :1]), factors[:, 0])
    learned, tested = factors[:600, 0], factors[600:, 0]
    assert scores["reduced_downstream"] == (tested == np.bincount(learned).argmax()).mean()
    assert "other_accuracy" not in scores


def test_the_published_engine_and_the_linear_predictor(factors):
    options = {"train": 100, "test": 100}
    grid = np.indices((4, 4)).reshape(2, -1).T
    fast = reduced_downstream(grid, grid, **options)
    published = reduced_downstream(grid, grid, engine="sklearn", **options)
    assert fast == pytest.approx(published, abs=0.03)
    linear = reduced_downstream(noisy(factors), factors, predictor="logistic")
    assert linear["plain_accuracy"] > 0.9
    assert linear["reduced_downstream"] < 0.4


def test_removed_must_be_positive(factors):
    with pytest.raises(MetricError, check=about("removed", 0)):
        reduced_downstream(factors, factors, removed=0)
