"""MIG from densities compared with plain loops and known values."""

import math

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics import MetricError, mig_density
from unweave.metrics.mig_density import mixture_entropy


def grid():
    """8 × 6 values, 25 rows each."""
    return np.stack(np.meshgrid(range(8), range(6), range(25), indexing="ij"), -1).reshape(-1, 3)[
        :, :2
    ]


def test_entropy_equals_textbook():
    rng = np.random.default_rng(0)
    means, logvars = rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) - 1
    codes = rng.normal(size=(40, 2))
    found = mixture_entropy(means, logvars, codes)
    for latent in range(2):
        total = 0.0
        for row in range(40):
            z = codes[row, latent]
            density = sum(
                math.exp(-0.5 * ((z - m) ** 2 / math.exp(v) + v + math.log(2 * math.pi)))
                for m, v in zip(means[:, latent], logvars[:, latent], strict=True)
            )
            total -= math.log(density / 40) / 40
        assert found[latent] == pytest.approx(total, abs=1e-5)


def test_the_entropy_of_equal_posteriors_is_that_of_a_normal_distribution():
    codes = 2 * np.random.default_rng(0).normal(size=(5_000, 1))
    found = mixture_entropy(np.zeros((5_000, 1)), np.full((5_000, 1), math.log(4)), codes)
    assert found[0] == pytest.approx(0.5 * math.log(2 * math.pi * math.e * 4), abs=0.03)


def test_a_perfect_code_has_1_and_an_unrelated_one_0():
    factors = grid()
    narrow = np.full((len(factors), 3), [-6.0, -6.0, 0.0])
    perfect = np.concatenate([factors, np.zeros((len(factors), 1))], 1).astype(float)
    scores = mig_density(perfect, factors, logvars=narrow)
    assert scores["mig_density"] == pytest.approx(1.0, abs=0.03)
    unrelated = np.random.default_rng(1).normal(size=(len(factors), 3))
    for logvar in (-1, -5, -10, -20, -200):  # a noise of 0.00005, and none
        logvars = np.full(unrelated.shape, logvar)
        assert mig_density(unrelated, factors, logvars=logvars)["mig_density"] < 0.03


def test_noise_and_copies_lower_the_score():
    """Posteriors as wide as the steps between values, and a copy of the first factor's code."""
    factors = grid()
    means = factors[:, [0, 1, 0]].astype(float)
    narrow = np.full(means.shape, -6.0)
    scores = mig_density(means, factors, logvars=narrow)
    assert scores["gap_0"] == pytest.approx(0.0, abs=0.03)
    assert scores["gap_1"] == pytest.approx(1.0, abs=0.03)
    assert scores["mig_density"] == pytest.approx(0.5, abs=0.03)
    wide = mig_density(means[:, :2], factors, logvars=narrow[:, :2] * 0)
    # A Gaussian of σ = 1 around eight values one apart: I = H(z) - ½ log 2πe, by quadrature.
    z = np.linspace(-8, 16, 20_001)
    density = np.exp(-0.5 * (z[:, None] - np.arange(8)) ** 2).mean(1) / math.sqrt(2 * math.pi)
    entropy = -(density * np.log(density)).sum() * (z[1] - z[0])
    known = (entropy - 0.5 * math.log(2 * math.pi * math.e)) / math.log(8)
    assert wide["gap_0"] == pytest.approx(known, abs=0.03)


def test_it_does_not_depend_on_order_scale_or_sign_of_codes():
    factors = grid()
    rng = np.random.default_rng(2)
    means = factors @ rng.normal(size=(2, 3)) + rng.normal(size=(len(factors), 3))
    logvars = np.full(means.shape, -2.0)
    expected = mig_density(means, factors, logvars=logvars)["mig_density"]
    found = mig_density(-2 * means, factors, logvars=logvars + math.log(4))["mig_density"]
    assert found == pytest.approx(expected, abs=0.02)
    assert mig_density(means[:, ::-1], factors, logvars=logvars)["mig_density"] == pytest.approx(
        expected, abs=0.02
    )


def test_missing_log_variances_are_named():
    with pytest.raises(MetricError, check=about("logvars", None)):
        mig_density(np.zeros((4, 2)), np.arange(4))
    with pytest.raises(MetricError, check=about("logvars", [3, 2])):
        mig_density(np.zeros((4, 2)), np.arange(4), logvars=np.zeros((3, 2)))
