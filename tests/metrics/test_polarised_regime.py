"""Polarised regime by hand, and its pitfall: unused latents with low noise."""

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics import MetricError, polarised_regime


def two_signs(size, rows=100):
    """±size in equal parts: mean 0, second moment size²."""
    return np.tile([-size, size], rows // 2)


def latents(*pairs, rows=100):
    """Means and log-variances of latents given as (μ², σ²)."""
    means = np.column_stack([two_signs(np.sqrt(square), rows) for square, _ in pairs])
    return means, np.log([[noise for _, noise in pairs]] * rows)


def test_published_examples():
    means, logvars = latents((0.99, 0.01), (0.01, 0.99))
    scores = polarised_regime(means, logvars=logvars)
    assert scores["log_delta_0"] == pytest.approx(-6.1, abs=0.05)
    assert scores["log_delta_1"] == pytest.approx(4.6, abs=0.05)
    assert scores["polarised_regime"] == pytest.approx(
        (scores["log_delta_0"] + scores["log_delta_1"]) / 2
    )


def test_delta_is_the_share_omitted_by_the_approximation():
    rng = np.random.default_rng(0)
    means, logvars = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    exact = 0.5 * (means**2 + np.exp(logvars) - logvars - 1)
    approximate = 0.5 * (means**2 - logvars - 1)
    expected = np.log((exact - approximate).mean(0) / exact.mean(0))
    scores = polarised_regime(means, logvars=logvars)
    assert [scores[f"log_delta_{j}"] for j in range(3)] == pytest.approx(expected, abs=1e-9)


def test_small_noise_of_an_unused_latent_looks_active_and_its_mean_shows_it():
    """Unused latents of an ensemble settle at σ² = 1 / 21 with a mean that never changes."""
    means, logvars = latents((0, 1 / 21), (0.99, 0.01))
    scores = polarised_regime(means, logvars=logvars)
    assert scores["num_active"] == 2
    assert scores["mean_variance_0"] == 0
    assert scores["mean_variance_1"] == pytest.approx(0.99)


def test_a_latent_equal_to_the_prior_is_finite():
    assert np.isfinite(
        list(polarised_regime(*latents((0, 1))[:1], logvars=np.zeros((100, 1))).values())
    ).all()


def test_means_and_log_variances_use_the_same_rows():
    rows = 10_001
    means = np.arange(rows, dtype=float)
    logvars = -means / rows
    first, second = (polarised_regime(means, seed=s, logvars=logvars) for s in (0, 1))
    assert first != second
    drawn = np.random.default_rng(0).integers(rows, size=10_000)
    assert first == polarised_regime(means[drawn], logvars=logvars[drawn])


def test_log_variances_are_required_in_shape():
    with pytest.raises(MetricError, check=about("logvars", None)):
        polarised_regime(np.zeros((4, 2)))
    with pytest.raises(MetricError, check=about("logvars", [4, 3])):
        polarised_regime(np.zeros((4, 2)), logvars=np.zeros((4, 3)))
