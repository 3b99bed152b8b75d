"""Strong generalisation: shifts that affect entangled codes only."""

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics import MetricError, strong_generalisation
from unweave.metrics.base import table
from unweave.metrics.strong_generalisation import shifted

OPTIONS = {"experiments": 3, "train": 500, "test": 300}


@pytest.fixture
def factors():
    return np.indices((3, 4, 5)).reshape(3, -1).T


def test_training_has_one_value_and_testing_the_others(factors):
    rows = table(factors, factors)
    seen = set()
    for seed in range(200):
        learned, tested = shifted(rows, 1, np.random.default_rng(seed))
        fixed = [k for k in range(3) if len(np.unique(learned.factors[:, k])) == 1]
        assert fixed in ([0], [2])
        value = learned.factors[0, fixed[0]]
        assert (tested.factors[:, fixed[0]] != value).all()
        assert len(learned) + len(tested) == len(rows)
        seen.add((fixed[0], value))
    assert seen == {(0, v) for v in range(3)} | {(2, v) for v in range(5)}


def test_aligned_codes_lose_nothing_and_mixed_codes_much(factors):
    aligned = strong_generalisation(factors, factors, **OPTIONS)
    assert aligned["strong_generalisation"] == pytest.approx(0, abs=1e-9)
    mixed = factors @ [[1, 3, 7], [5, 1, 3], [3, 7, 1]]
    scores = strong_generalisation(mixed, factors, **OPTIONS)
    assert scores["plain_accuracy"] > 0.8
    assert scores["strong_generalisation"] > 0.3
    gap = 1 - scores["strong_accuracy"] / scores["plain_accuracy"]
    assert scores["strong_generalisation"] == pytest.approx(gap)


def test_the_linear_predictor(factors):
    noise = 0.05 * np.random.default_rng(0).normal(size=factors.shape)
    options = OPTIONS | {"predictor": "logistic", "experiments": 1}
    scores = strong_generalisation(factors + noise, factors, **options)
    assert scores["strong_accuracy"] > 0.8


def test_too_few_rows_or_factors_are_rejected(factors):
    with pytest.raises(MetricError, check=about("factors", 1)):
        strong_generalisation(factors, factors[:, 0])
    rng = np.random.default_rng(0)
    continuous = np.column_stack([rng.normal(size=200), rng.integers(0, 2, 200)])
    with pytest.raises(MetricError, check=about("factor 0", 1)):
        strong_generalisation(continuous, continuous, **OPTIONS)
