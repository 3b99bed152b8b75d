"""The BetaVAE score."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.raising import about
from unweave.metrics import MetricError, beta_vae
from unweave.metrics.base import table
from unweave.metrics.beta_vae import differences

SIZES = (3, 6, 10, 8, 8)


def test_golden(golden):
    for seed, reference in enumerate(golden.sampled):
        assert (
            abs(beta_vae(golden.codes, golden.factors, seed)["beta_vae"] - reference["beta_vae"])
            <= 0.002
        )


def textbook_differences(codes, sizes, fixed, batch, generator):
    """Protocol of the reference: sample factors and look up their codes on the grid."""
    points = []
    for factor in fixed:
        first = generator.integers(0, sizes, (batch, len(sizes)))
        second = generator.integers(0, sizes, (batch, len(sizes)))
        second[:, factor] = first[:, factor]
        z1, z2 = (codes[np.ravel_multi_index(tuple(v.T), sizes)] for v in (first, second))
        points.append(np.abs(z1 - z2).mean(0))
    return np.array(points)


def test_points_follow_the_textbook_distribution(golden):
    fixed = np.repeat(np.arange(5), 200)
    rows = table(golden.codes, golden.factors)
    ours = differences(rows, fixed, 64, np.random.default_rng(0)).reshape(5, 200, -1)
    theirs = textbook_differences(golden.codes, SIZES, fixed, 64, np.random.default_rng(1))
    theirs = theirs.reshape(5, 200, -1)
    error = np.sqrt((ours.var(1) + theirs.var(1)) / 200)
    assert (np.abs(ours.mean(1) - theirs.mean(1)) < 5 * error).all()
    assert_allclose(ours.std(1), theirs.std(1), rtol=0.4)


def test_points_by_hand():
    codes = np.array([0.0, 1.0, 10.0, 11.0])
    factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    fixed = np.array([0, 1] * 50)
    points = differences(table(codes, factors), fixed, 400, np.random.default_rng(0)).ravel()
    assert_allclose(points[fixed == 0], 0.5, atol=0.1)
    assert_allclose(points[fixed == 1], 5.0, atol=1.0)


def test_sample_and_grid_agree(golden):
    sample = np.random.default_rng(0).integers(len(golden.codes), size=3000)
    noisy = golden.codes + np.random.default_rng(1).normal(0, 3, golden.codes.shape)
    grid = beta_vae(noisy, golden.factors, batch=8)["beta_vae"]
    assert grid < 0.9
    assert abs(beta_vae(noisy[sample], golden.factors[sample], batch=8)["beta_vae"] - grid) < 0.05


def test_noise_is_at_chance():
    factors = np.random.default_rng(0).integers(0, 4, (2000, 4))
    codes = np.random.default_rng(1).normal(size=(2000, 6))
    assert abs(beta_vae(codes, factors)["beta_vae"] - 0.25) < 0.03


def test_too_sparse():
    with pytest.raises(MetricError, check=about("factor 1", 50)):
        beta_vae(np.zeros((50, 2)), np.stack([np.arange(50) % 2, np.arange(50)], 1))
