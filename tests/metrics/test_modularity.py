"""Modularity and explicitness."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from tests.raising import about
from unweave.metrics import MetricError, modularity
from unweave.metrics.modularity import area_under_roc, modularity_per_code


def test_golden(golden):
    assert_allclose(modularity(*golden.train)["modularity"], golden.fixed["modularity"], atol=1e-9)
    tested = dict(zip(("test_codes", "test_factors"), golden.test, strict=True))
    assert_allclose(
        modularity(*golden.train, **tested)["modularity"], golden.fixed["modularity"], atol=1e-9
    )


def test_golden_protocol(golden):
    scores = modularity(golden.codes, golden.factors)
    reference = [run["modularity"] for run in golden.sampled]
    for name, spread in (("explicitness_train", 0.004), ("explicitness_test", 0.004)):
        theirs = np.mean([run[name.replace("_t", "_score_t")] for run in reference])
        assert abs(scores[name] - theirs) < spread
    theirs = [run["modularity_score"] for run in reference]
    assert min(theirs) - 0.04 < scores["modularity"] < max(theirs) + 0.04


def test_training_and_test_rows_from_one_table(golden):
    codes, factors = (np.concatenate(pair) for pair in zip(golden.train, golden.test, strict=True))
    tested = dict(zip(("test_codes", "test_factors"), golden.test, strict=True))
    assert modularity(codes, factors) == modularity(*golden.train, **tested)


def test_explicitness_equals_reference(golden):
    (x, y), (x_test, y_test) = golden.train, golden.test
    mean, deviation = x.mean(0), x.std(0)
    x, x_test = (x - mean) / deviation, (x_test - mean) / deviation
    areas = []
    for k in range(5):
        model = LogisticRegression().fit(x, y[:, k])
        areas.append(
            roc_auc_score(np.eye(y[:, k].max() + 1)[y_test[:, k]], model.predict_proba(x_test))
        )
    found = modularity(*golden.train, test_codes=golden.test[0], test_factors=golden.test[1])
    assert_allclose(found["explicitness_test"], np.mean(areas), atol=1e-12)


def test_area_with_ties():
    generator = np.random.default_rng(0)
    classes = generator.integers(0, 3, 200)
    scores = generator.integers(0, 5, (200, 3)) / 4
    expected = roc_auc_score(np.eye(3)[classes], scores)
    assert_allclose(area_under_roc(scores, classes, np.arange(3)), expected)


def test_area_of_present_classes():
    scores = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.6, 0.4, 0.0]])
    assert area_under_roc(scores, np.array([0, 1, 0]), np.array([0, 1, 2])) == 1


def test_modularity_by_hand():
    information = np.array([[1.0, 0, 0], [1, 1, 1], [2, 1, 0], [0, 0, 0]])
    assert_allclose(modularity_per_code(information), [1, 0, 1 - 1 / 8, 0])
    assert_allclose(modularity_per_code(np.array([[0.3], [0]])), [1, 0])


def test_constant_code_does_not_matter_for_explicitness(golden):
    codes, factors = golden.train
    plain = modularity(codes, factors)
    # 0.1 has no exact mean, so that its deviation is a rounding error and not 0.
    padded = modularity(np.pad(codes, ((0, 0), (0, 1)), constant_values=0.1), factors)
    assert_allclose(padded["explicitness_test"], plain["explicitness_test"], atol=1e-3)
    assert_allclose(padded["modularity"], plain["modularity"] * 10 / 11)


def test_too_few_rows():
    with pytest.raises(MetricError, check=about("factors", (3, 1))):
        modularity([0.0, 1.0, 2.0], [0, 0, 0], test_codes=[1.0], test_factors=[1])
