"""DCI."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import entropy
from sklearn.ensemble import GradientBoostingClassifier

from tests.raising import about
from unweave.errors import UnknownNameError
from unweave.metrics import dci, importance_matrix
from unweave.metrics.dci import completeness, disentanglement


def test_fast_engine_agrees_with_scikit_learn(golden):
    test_codes, test_factors = golden.test
    found = dci(*golden.train, test_codes=test_codes, test_factors=test_factors)
    # Half the documented tolerance: the engines differ only by ties and rounding.
    for key, value in golden.dci_sklearn.items():
        assert abs(found[key] - value) < 0.005, key
    # Other rows of the same codes, so the tolerance is larger.
    for key, value in golden.sampled[0]["dci"].items():
        assert abs(found[key] - value) < 0.01, key


def small(rows=450):
    generator = np.random.default_rng(0)
    factors = generator.integers(0, (2, 4), (rows, 2))
    codes = factors @ np.array([[1.0, 0.4, 0], [0, 1.0, 0]]) + generator.normal(0, 0.4, (rows, 3))
    return codes, factors


def test_published_engine_by_the_textbook():
    codes, factors = small()
    found = dci(codes, factors, engine="sklearn")
    models = [
        GradientBoostingClassifier(random_state=0).fit(codes[:300], factors[:300, k])
        for k in range(2)
    ]
    importances = np.stack([model.feature_importances_ for model in models], 1)
    per_code = 1 - entropy(importances.T + 1e-11, base=2)
    per_factor = 1 - entropy(importances + 1e-11, base=3)
    accuracy = [
        np.mean([models[k].score(codes[part], factors[part, k]) for k in range(2)])
        for part in (slice(0, 300), slice(300, None))
    ]
    weights = importances.sum(1) / importances.sum()
    assert_allclose(found["disentanglement"], (per_code * weights).sum(), atol=0.005)
    assert_allclose(found["completeness"], per_factor.mean(), atol=0.005)
    assert_allclose(found["informativeness_train"], accuracy[0], atol=0.005)
    assert_allclose(found["informativeness_test"], accuracy[1], atol=0.01)
    assert found["dci"] == found["disentanglement"]


def test_engines_agree():
    codes, factors = small()
    fast, published = dci(codes, factors), dci(codes, factors, engine="sklearn")
    for key in ("disentanglement", "completeness"):
        assert abs(fast[key] - published[key]) < 0.01


def test_importances_give_the_score():
    codes, factors = small()
    importances = importance_matrix(codes, factors, seed=2)
    assert importances.shape == (3, 2)
    assert_allclose(importances.sum(0), 1)
    assert importances.argmax(0).tolist() == [0, 1]
    scores = dci(codes, factors, seed=2)
    assert disentanglement(importances) == scores["disentanglement"]
    assert completeness(importances) == scores["completeness"]


def test_scores_of_importances():
    assert_allclose(disentanglement(np.eye(4)), 1)
    assert_allclose(completeness(np.eye(4)), 1)
    assert_allclose(disentanglement(np.ones((4, 3))), 0, atol=1e-9)
    assert_allclose(completeness(np.ones((4, 3))), 0, atol=1e-9)
    assert disentanglement(np.zeros((4, 3))) == 0
    assert completeness(np.zeros((4, 3))) == 0


def test_unused_codes_have_no_weight():
    used = np.array([[0.9, 0.2], [0.1, 0.8]])
    padded = np.concatenate([used, np.zeros((3, 2))])
    assert_allclose(disentanglement(padded), disentanglement(used))


def test_single_factor_and_single_code():
    assert_allclose(disentanglement(np.array([[0.4], [0.6], [0.0]])), 1)
    assert_allclose(completeness(np.array([[0.4, 0.6]])), 1)


def test_single_value_in_training_rows():
    for engine in ("fast", "sklearn"):
        found = dci(
            [0.0, 1, 2], [5, 5, 5], test_codes=[0.0, 1], test_factors=[5, 6], engine=engine
        )
        assert found["dci"] == 0
        assert found["informativeness_test"] == 0.5


def test_unknown_engine():
    with pytest.raises(UnknownNameError, check=about("engine", "xgboost")):
        dci(*small(), engine="xgboost")
