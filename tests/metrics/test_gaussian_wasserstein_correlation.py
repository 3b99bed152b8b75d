"""Gaussian Wasserstein correlation against the reference and the matrix square root."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from unweave.metrics import gaussian_wasserstein_correlation

NAME = "gaussian_wasserstein_correlation"


def test_equals_the_reference(golden):
    scores = gaussian_wasserstein_correlation(*golden.train)
    assert scores[NAME] == pytest.approx(golden.fixed[NAME], abs=1e-6)
    total = golden.train[0].var(0, ddof=1, dtype=np.float64).sum()
    assert scores[NAME + "_norm"] == pytest.approx(golden.fixed[NAME] / total, abs=1e-6)


def test_equals_the_matrix_root():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6))
    covariance = np.cov(codes.T)
    root = sqrtm(np.diag(np.diag(covariance)) @ covariance).real
    expected = 2 * np.trace(covariance) - 2 * np.trace(root)
    scores = gaussian_wasserstein_correlation(codes)
    assert expected > 1
    assert scores[NAME] == pytest.approx(expected, rel=1e-9)


def test_a_duplicate_of_unit_variance_has_the_closed_form():
    """Σ = [[1, 1], [1, 1]] has the root's trace √2."""
    code = np.random.default_rng(0).normal(size=100)
    code = code / code.std(ddof=1)
    scores = gaussian_wasserstein_correlation(np.column_stack([code, code]))
    assert scores[NAME] == pytest.approx(4 - 2 * np.sqrt(2), abs=1e-9)
    assert scores[NAME + "_norm"] == pytest.approx(2 - np.sqrt(2), abs=1e-9)


def test_scale_and_constant_codes():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3))
    plain = gaussian_wasserstein_correlation(codes)
    scaled = gaussian_wasserstein_correlation(10 * codes)
    assert scaled[NAME] == pytest.approx(100 * plain[NAME])
    assert scaled[NAME + "_norm"] == pytest.approx(plain[NAME + "_norm"])
    more = gaussian_wasserstein_correlation(np.column_stack([codes, np.full(300, 0.1)]))
    assert more[NAME] == pytest.approx(plain[NAME])
    assert gaussian_wasserstein_correlation(np.ones((300, 2))) == {NAME: 0.0, NAME + "_norm": 0.0}
