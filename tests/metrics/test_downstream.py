"""Downstream accuracies: sizes, factors and the statistical efficiency."""

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics import MetricError, downstream
from unweave.metrics.tools.predictors import fit


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, [2, 5], (1500, 2))
    return factors + 0.2 * rng.normal(size=(1500, 2)), factors


@pytest.fixture(scope="module")
def scores(sample):
    return downstream(*sample)


def test_accuracies_are_those_of_predictors_on_first_rows(sample, scores):
    """1,500 rows are split in order: 1,000 for training and 500 for testing."""
    codes, factors = sample
    for size in (10, 100, 1000):
        for kind in ("logistic", "trees"):
            expected = []
            for k in range(2):
                model = fit(kind, codes[:size], factors[:size, k])
                expected.append((model.predict(codes[1000:]) == factors[1000:, k]).mean())
                assert scores[f"{kind}_accuracy_{size}_factor_{k}"] == expected[-1]
            assert scores[f"{kind}_accuracy_{size}"] == pytest.approx(np.mean(expected))
            assert scores[f"{kind}_worst_{size}"] == min(expected)


def test_the_headline_and_the_efficiency(scores):
    assert scores["downstream"] == scores["trees_accuracy_1000"]
    for kind in ("logistic", "trees"):
        ratio = scores[f"{kind}_accuracy_100"] / scores[f"{kind}_accuracy_1000"]
        assert scores[f"{kind}_efficiency"] == ratio


def test_protocol_sizes_with_enough_rows(golden):
    scores = downstream(golden.codes, golden.factors, predictors=["trees"], sizes=(10, 100))
    assert scores["downstream"] == scores["trees_accuracy_100"]
    assert 0.1 < scores["trees_accuracy_10"] < scores["trees_accuracy_100"] < 1
    assert scores["trees_efficiency"] == 1


def test_test_rows_can_be_given(sample):
    codes, factors = sample
    options = {"predictors": ["logistic"], "sizes": [10_000]}
    apart = downstream(
        codes[:1000],
        factors[:1000],
        test_codes=codes[1000:],
        test_factors=factors[1000:],
        **options,
    )
    assert apart == downstream(codes, factors, **options)


def test_noise_scores_at_chance_level(sample):
    noise = np.random.default_rng(1).normal(size=(1500, 2))
    scores = downstream(noise, sample[1], predictors=["logistic"])
    assert scores["downstream"] == pytest.approx((1 / 2 + 1 / 5) / 2, abs=0.05)


def test_empty_arguments_are_rejected(sample):
    with pytest.raises(MetricError, check=about("predictors", [])):
        downstream(*sample, predictors=[])
