"""Logistic regression as the protocols have it."""

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from unweave.metrics.logistic import fit_logistic


def test_it_is_scikit_learn_s_and_silent_where_it_does_not_converge():
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
