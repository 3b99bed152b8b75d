"""Linear support vector machines of one variable."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from unweave.metrics.tools.svm import LinearSVMs


def sample(classes, rows=400, seed=0):
    generator = np.random.default_rng(seed)
    y = generator.choice(classes, rows, p=np.arange(1, classes + 1) / sum(range(classes + 1)))
    return y + generator.normal(0, 0.7, rows), y


@pytest.mark.parametrize("classes", [2, 3, 8])
@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (0.01, 0), (50, 0), (1, 20), (-1, 0)])
def test_solution_equals_scikit_learn(classes, scale, shift):
    x, y = sample(classes)
    x = x * scale + shift
    ours = LinearSVMs.fit(x, y[:, None])
    theirs = LinearSVC(C=0.01, class_weight="balanced", tol=1e-10, max_iter=1_000_000)
    theirs.fit(x[:, None], y)
    size = np.abs(theirs.coef_).max()
    assert_allclose(ours.slopes[0], theirs.coef_[:, 0], atol=1e-5 * size)
    assert_allclose(ours.intercepts[0], theirs.intercept_, atol=1e-5)
    assert (ours.predict(0, x) == theirs.predict(x[:, None])).all()


def test_solution_is_the_optimum():
    x, y = sample(3)

    def value(point, c):
        weight = np.where(y == c, len(y) / (3 * (y == c).sum()), 1) * 0.01
        margin = np.where(y == c, 1, -1) * (point[0] * x + point[1])
        return 0.5 * (point**2).sum() + (weight * np.maximum(0, 1 - margin) ** 2).sum()

    machines = LinearSVMs.fit(x, y[:, None])
    for c in range(3):
        found = np.array([machines.slopes[0][c], machines.intercepts[0][c]])
        best = minimize(value, found + 0.1, (c,), tol=1e-12)
        assert value(found, c) <= best.fun + 1e-12


def test_several_factors_at_once():
    x, y = sample(4)
    other = np.random.default_rng(1).integers(0, 2, len(x))
    both = LinearSVMs.fit(x, np.stack([y, other], 1))
    for k, factor in enumerate((y, other)):
        alone = LinearSVMs.fit(x, factor[:, None])
        assert_allclose(both.slopes[k], alone.slopes[0], rtol=1e-9)
        assert_allclose(both.intercepts[k], alone.intercepts[0], rtol=1e-9)


def test_missing_classes():
    x, y = sample(3)
    assert set(LinearSVMs.fit(x, 2 * y[:, None]).predict(0, x)) <= {0, 2, 4}
    assert (LinearSVMs.fit(x, np.full((len(x), 1), 4)).predict(0, x) == 4).all()


def test_constant_code():
    _, y = sample(4)
    machines = LinearSVMs.fit(np.full(len(y), 0.3), y[:, None])
    assert (machines.predict(0, np.zeros(5)) == 3).all()
