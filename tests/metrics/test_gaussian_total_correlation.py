"""Gaussian total correlation against the reference, the closed form and its known caveat."""

import math

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics import MetricError, gaussian_total_correlation


def score(codes, **options):
    return gaussian_total_correlation(codes, **options)["gaussian_total_correlation"]


def with_correlation(rho, rows=200):
    """Two codes whose sample correlation is exactly rho."""
    noise = np.random.default_rng(0).normal(size=(rows, 2))
    x, y = np.linalg.qr(noise - noise.mean(0))[0].T
    return np.column_stack([x, rho * x + math.sqrt(1 - rho**2) * y])


def test_equals_the_reference(golden):
    expected = golden.fixed["gaussian_total_correlation"]
    assert score(golden.train[0]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("rho", [0.0, 0.3, -0.9, 0.999])
def test_two_codes_have_the_closed_form(rho):
    expected = -0.5 * math.log(1 - rho**2)
    assert score(with_correlation(rho)) == pytest.approx(expected, abs=1e-9)
    assert score(with_correlation(rho) * [1e-4, 1e3] + 7) == pytest.approx(expected, abs=1e-9)


def test_a_passive_latent_counts_unless_only_active_ones_do():
    """Mean 0.001 × an active latent: 2.31 for mean codes, nothing for sampled ones."""
    rng = np.random.default_rng(0)
    active = rng.normal(size=(10_000, 3))
    copy = 1e-3 * (active[:, :1] + 0.1 * rng.normal(size=(10_000, 1)))
    means = np.hstack([active, copy])
    logvars = np.log([[1e-2, 1e-2, 1e-2, 1.0]])
    sampled = means + np.exp(logvars / 2) * rng.normal(size=means.shape)
    assert score(means) == pytest.approx(2.31, abs=0.03)
    assert score(sampled) == pytest.approx(0, abs=0.003)
    assert gaussian_total_correlation(means)["active_total_correlation"] < 0.003


def test_degenerate_codes():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(100, 2))
    assert score(np.column_stack([codes, np.full(100, 0.1)])) == score(codes)
    assert score(codes[:, [0, 1, 0]]) == math.inf
    assert score(codes[:, 0]) == 0
    assert score(np.full((100, 3), 0.1)) == 0
    with pytest.raises(MetricError, check=about("codes", 1)):
        score(codes[:1])


def test_more_rows_than_in_the_protocol_are_sampled():
    codes = np.random.default_rng(0).normal(size=(10_001, 2))
    assert score(codes, seed=1) != score(codes, seed=2)
    assert score(codes[:-1], seed=1) == score(codes[:-1], seed=2)
