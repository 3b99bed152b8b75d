"""Predictors of factors against scikit-learn's."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import KFold

from tests.raising import about
from unweave.errors import UnknownNameError
from unweave.metrics.base import table
from unweave.metrics.tools.predictors import accuracies, fit, fit_factors, fit_logistic


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, [2, 3], (400, 2))
    return table(factors @ [[1, 0, 1], [0, 1, 1]] + 0.4 * rng.normal(size=(400, 3)), factors)


def test_logistic_regression_equals_protocol(rows):
    model = LogisticRegressionCV(Cs=10, cv=KFold(n_splits=5), scoring="accuracy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.fit(rows.codes[:200], rows.factors[:200, 1]).predict(rows.codes)
    found = fit("logistic", rows.codes[:200], rows.factors[:200, 1]).predict(rows.codes)
    assert found.tolist() == expected.tolist()


def test_published_engine_equals_scikit_learn(rows):
    expected = GradientBoostingClassifier(random_state=3).fit(rows.codes, rows.factors[:, 1])
    found = fit("trees", rows.codes, rows.factors[:, 1], seed=3, engine="sklearn")
    assert found.predict(rows.codes).tolist() == expected.predict(rows.codes).tolist()
    assert found.feature_importances_.tolist() == expected.feature_importances_.tolist()


def test_both_engines_agree(rows):
    learned, tested = rows.rows(slice(0, 200)), rows.rows(slice(200, None))
    fast, published = (
        accuracies(fit_factors("trees", learned, 0, engine), tested)
        for engine in ("fast", "sklearn")
    )
    assert fast == pytest.approx(published, abs=0.03)
    assert fast.min() > 0.75
    both = [
        fit("trees", rows.codes, rows.factors[:, 0], 0, engine).feature_importances_
        for engine in ("fast", "sklearn")
    ]
    assert both[0] == pytest.approx(both[1], abs=0.03)


def test_constant_predictor_without_codes_or_with_one_class(rows):
    classes = np.array([4, 1, 4, 2])
    blind = fit("trees", np.empty((4, 0)), classes)
    assert blind.predict(np.empty((3, 0))).tolist() == [4, 4, 4]
    sure = fit("logistic", rows.codes, np.full(400, 7))
    assert sure.predict(rows.codes[:2]).tolist() == [7, 7]
    assert sure.feature_importances_.tolist() == [0, 0, 0]


def test_few_rows_are_enough():
    codes = np.arange(3.0)[:, None]
    for kind in ("logistic", "trees"):
        assert set(fit(kind, codes, np.array([0, 1, 5])).predict(codes)) <= {0, 1, 5}


def test_unknown_names_are_rejected(rows):
    with pytest.raises(UnknownNameError, check=about("predictor", "forest")):
        fit("forest", rows.codes, rows.factors[:, 0])
    with pytest.raises(UnknownNameError, check=about("engine", "gpu")):
        fit("trees", rows.codes, rows.factors[:, 0], engine="gpu")


def test_plain_logistic_regression_does_not_warn():
    generator = np.random.default_rng(0)
    points = generator.normal(size=(300, 3)) * [1, 1, 1e4]
    classes = (points[:, 0] + generator.normal(size=300) > 0).astype(int) + (points[:, 1] > 0)
    ours = fit_logistic(points, classes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        theirs = LogisticRegression().fit(points, classes)
    assert any("failed to converge" in str(warning.message) for warning in caught)
    assert (ours.predict(points) == theirs.predict(points)).all()
    assert np.allclose(ours.coef_, theirs.coef_)
