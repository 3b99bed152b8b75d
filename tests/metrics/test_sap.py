"""SAP."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.svm import LinearSVC

from tests.raising import about
from unweave.metrics import MetricError, accuracy_matrix, sap


def held_out(golden):
    return dict(zip(("test_codes", "test_factors"), golden.test, strict=True))


def test_golden(golden):
    # At most two test rows differ, because scikit-learn's solver stops before the optimum.
    assert_allclose(sap(*golden.train, **held_out(golden))["sap"], golden.fixed["sap"], atol=1e-4)
    reference = np.array([scores["sap"] for scores in golden.sampled])
    found = np.array([sap(golden.codes, golden.factors, seed)["sap"] for seed in range(10)])
    assert abs(found.mean() - reference.mean()) < 3 * found.std() * (1 / 3 + 1 / 10) ** 0.5


def test_training_and_test_rows_from_one_table(golden):
    codes, factors = (np.concatenate(pair) for pair in zip(golden.train, golden.test, strict=True))
    assert sap(codes, factors) == sap(*golden.train, **held_out(golden))


def test_accuracies_equal_scikit_learn():
    generator = np.random.default_rng(0)
    factors = generator.integers(0, (2, 3, 7), (900, 3))
    codes = factors @ generator.normal(size=(3, 4)) + generator.normal(size=(900, 4))
    found = accuracy_matrix(codes, factors)
    for j in range(4):
        for k in range(3):
            machine = LinearSVC(C=0.01, class_weight="balanced", tol=1e-9, max_iter=100_000)
            machine.fit(codes[:600, [j]], factors[:600, k])
            assert found[j, k] == machine.score(codes[600:, [j]], factors[600:, k])


def test_gap_of_the_two_best():
    generator = np.random.default_rng(0)
    factors = generator.integers(0, (2, 3), (900, 2))
    codes = factors @ generator.normal(size=(2, 4)) + generator.normal(size=(900, 4))
    best = np.sort(accuracy_matrix(codes, factors), 0)
    assert sap(codes, factors)["sap"] == (best[-1] - best[-2]).mean()


def test_single_code_against_a_constant():
    factor = np.random.default_rng(0).choice(3, 900, p=[0.2, 0.5, 0.3])
    codes = (factor == 2).astype(float)
    accuracy = accuracy_matrix(codes, factor)
    assert accuracy.shape == (1, 1)
    assert sap(codes, factor)["sap"] == accuracy[0, 0] - (factor[600:] == 1).mean()


def test_continuous():
    generator = np.random.default_rng(0)
    factors = generator.normal(size=(500, 2))
    codes = np.stack([factors[:, 0], factors.sum(1), np.ones(500)], 1)
    squared = np.corrcoef(factors.T, factors.sum(1))[:2, 2] ** 2
    between = np.corrcoef(factors.T)[0, 1] ** 2
    expected = np.mean([1 - squared[0], squared[1] - between])
    assert_allclose(sap(codes, factors, continuous=True)["sap"], expected)


def test_errors_in_continuous_mode():
    with pytest.raises(MetricError, check=about("factors", None)):
        sap(np.arange(5.0), np.ones(5), continuous=True)
    with pytest.raises(MetricError, check=about("factors", 4)):
        sap(np.arange(5.0), np.ones(4), continuous=True)
