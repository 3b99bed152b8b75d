"""Scores of a perfect code of dSprites, and of one without a factor."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import unweave as uw
from unweave.metrics import accuracy_matrix, information_matrix
from unweave.metrics.tools.discretise import entropy

SIZES = (3, 6, 40, 32, 32)


@pytest.fixture(scope="module")
def factors():
    return np.stack(np.unravel_index(np.arange(np.prod(SIZES)), SIZES), 1)


@pytest.fixture(scope="module")
def codes(factors):
    return ((factors - factors.mean(0)) / factors.std(0)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "expected", "tolerance"),
    [
        ("beta_vae", 1, 1e-3),
        ("factor_vae", 1, 1e-3),
        ("modularity", 1, 1e-3),
        ("mig", 0.90, 0.01),
        ("sap", 0.245, 0.01),
    ],
)
def test_perfect_code(name, expected, tolerance, codes, factors):
    assert_allclose(uw.metrics.METRICS[name](codes, factors)[name], expected, atol=tolerance)


def test_perfect_code_by_dci(codes, factors):
    """Uses 2,000 rows; ten thousand take longer and add nothing."""
    rows = np.random.default_rng(0).integers(len(codes), size=2000)
    scores = uw.metrics.dci(codes[rows], factors[rows])
    assert scores["disentanglement"] > 0.8
    mixed = uw.metrics.dci(codes[rows] @ np.ones((5, 5)) + codes[rows], factors[rows])
    assert mixed["disentanglement"] < 0.3


def test_bins_limit_factors_with_many_values(codes, factors):
    gaps = np.diag(information_matrix(codes, factors)) / entropy(factors[::7])
    assert_allclose(gaps, [1, 1, 0.81, 0.86, 0.86], atol=0.03)


def test_gaps_of_sap(codes, factors):
    best = np.sort(accuracy_matrix(codes, factors), 0)
    assert_allclose(best[-1] - best[-2], [0.65, 0.50, 0.02, 0.03, 0.03], atol=0.02)


@pytest.mark.parametrize("missing", range(5))
def test_a_code_that_lacks_a_factor(missing, codes, factors):
    lacking = np.delete(codes, missing, 1)
    assert uw.metrics.beta_vae(lacking, factors)["beta_vae"] > 0.999
    assert_allclose(uw.metrics.factor_vae(lacking, factors)["factor_vae"], 0.8, atol=0.02)


def test_rotation_lowers_scores_of_single_codes(codes, factors):
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0].astype(np.float32)
    assert uw.metrics.mig(codes @ turn, factors)["mig"] < 0.4
    assert uw.metrics.factor_vae(codes @ turn, factors)["factor_vae"] < 0.9
