"""Sparse components: the free energy against integrals and draws, and its maximisation."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.papers.isa_vae.theory import ica
from unweave.papers.theory import TheoryError

BETAS = (1.0, 5.0)


@pytest.fixture(scope="module")
def case():
    data = ica.draw(7, count=20, noise=0.5)
    rng = np.random.default_rng(1)
    posteriors = ica.Posteriors(rng.normal(size=(20, 3)), rng.normal(-0.5, 0.5, size=(20, 3)))
    return data, posteriors


def test_data_are_as_described():
    data = ica.draw(0, count=200_000, noise=0.25)
    assert data.weights == pytest.approx(
        3 * np.array([[1, 0.5, -0.5], [0, 0.75**0.5, 0.75**0.5]]), abs=1e-12
    )
    rest = data.observed - data.sources @ data.weights.T
    assert rest.var(0) == pytest.approx([0.25, 0.25], rel=0.02)
    assert stats.kstest(data.sources[:, 1], stats.t(3.5).cdf).pvalue > 0.01
    assert (ica.draw(0).observed == ica.draw(0).observed).all()
    assert (ica.draw(0).observed != ica.draw(1).observed).all()


@pytest.mark.parametrize(("mean", "scale"), [(0, 0.02), (0, 1.3), (1.5, 1), (-8, 0.5), (40, 2)])
def test_the_expectation_of_the_prior_is_its_integral(mean, scale):
    prior = stats.t(3.5).logpdf
    exact, _ = quad(
        lambda e: np.exp(-(e**2) / 2) / np.sqrt(2 * np.pi) * prior(mean + scale * e), -12, 12
    )
    posteriors = ica.Posteriors(np.array([[mean]], float), np.log([[scale]]))
    value = ica.free_energy(np.zeros((1, 2)), np.zeros((2, 1)), 1.0, posteriors)[0]
    entropy = np.log(scale) + 0.5 * np.log(2 * np.pi * np.e)
    assert value + np.log(2 * np.pi) - entropy == pytest.approx(exact, abs=2e-5)


@pytest.mark.parametrize("beta", BETAS)
def test_the_free_energy_agrees_with_monte_carlo(case, beta):
    data, posteriors = case
    found = ica.free_energy(data.observed, data.weights, data.noise, posteriors, beta)
    scales = np.exp(posteriors.log_scales)
    z = posteriors.means + scales * np.random.default_rng(2).normal(size=(10_000, 20, 3))
    log_likelihood = stats.norm(z @ data.weights.T, data.noise**0.5).logpdf(data.observed).sum(-1)
    log_prior = stats.t(3.5).logpdf(z).sum(-1)
    log_q = stats.norm(posteriors.means, scales).logpdf(z).sum(-1)
    drawn = log_likelihood / beta + log_prior - log_q
    assert (np.abs(found - drawn.mean(0)) < 4.5 * drawn.std(0) / 100).all()
    # The data points differ far more than the draws of their means do.
    assert np.std(found) > 5 * (drawn.std(0) / 100).max()


@pytest.mark.parametrize("beta", BETAS)
def test_gradients_agree_with_finite_differences(case, beta):
    data, posteriors = case
    found = ica.gradients(data.observed, data.weights, data.noise, posteriors, beta)

    def value(means, log_scales):
        moved = ica.Posteriors(means, log_scales)
        return ica.free_energy(data.observed, data.weights, data.noise, moved, beta)

    for k in range(3):
        step = 1e-5 * np.eye(3)[k]
        means, logs = posteriors.means, posteriors.log_scales
        by_mean = (value(means + step, logs) - value(means - step, logs)) / 2e-5
        by_scale = (value(means, logs + step) - value(means, logs - step)) / 2e-5
        assert found[0][:, k] == pytest.approx(by_mean, rel=1e-5, abs=1e-6)
        assert found[1][:, k] == pytest.approx(by_scale, rel=1e-5, abs=1e-6)


def test_beta_divides_the_likelihood(case):
    data, posteriors = case
    one, two, four = (
        ica.free_energy(data.observed, data.weights, data.noise, posteriors, beta)
        for beta in (1, 2, 4)
    )
    assert one - two == pytest.approx(2 * (two - four))  # L/2 and L/4


def test_posteriors_converge_before_the_first_step():
    """No update of the posteriors improves the free energy at the true weights."""
    data = ica.draw(0)
    learner = ica._Learner(data, 5.0)
    learner.settle()
    slopes = ica.gradients(data.observed, data.weights, data.noise, learner.posteriors, 5.0)
    assert np.abs(slopes[1]).max() < 1e-3
    # Of the means, in units of their posterior's spread.
    assert np.abs(slopes[0] * np.exp(learner.posteriors.log_scales)).max() < 1e-3
    assert (learner.weights == data.weights).all()


def test_an_update_that_lowers_the_free_energy_is_reverted():
    """Half of the updates are reversed."""
    learner = ica._Learner(ica.draw(0), 1.0)
    before, values = learner.posteriors, learner.values
    learner.reach[:150] = -ica.LONGEST
    learner._move()
    back = (learner.posteriors.means == before.means).all(1)
    assert back[:150].all()
    assert (learner.values[:150] == values[:150]).all()
    assert (learner.reach[:150] == -ica.LONGEST / 2).all()
    assert (learner.values[150:][~back[150:]] > values[150:][~back[150:]]).all()
    assert back[150:].mean() < 0.1
    assert (learner.reach[150:][~back[150:]] == ica.LONGEST).all()


def test_weights_of_a_step_are_the_best_for_the_posteriors():
    data = ica.draw(0)
    learner = ica._Learner(data, 1.0)
    learner.settle()
    before = learner.posteriors
    learner.step()

    def value(weights):
        return ica.free_energy(data.observed, weights, data.noise, before).mean()

    best = value(learner.weights)
    assert best > value(data.weights)
    rng = np.random.default_rng(0)
    for _ in range(10):
        assert value(learner.weights + 1e-3 * rng.normal(size=(2, 3))) < best


@pytest.mark.parametrize("beta", BETAS)
def test_the_free_energy_never_falls(beta):
    data = ica.draw(3)
    way = ica.learn(data, beta, steps=300)
    assert (way.weights[0] == data.weights).all()
    assert np.diff(way.free_energy).min() > 0
    assert way.weights.shape == (301, 2, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", 0), ("beta", 0.0)],
)
def test_invalid_settings_are_rejected(name, value):
    with pytest.raises(UnweaveError, check=about(name, value)):
        ica.learn(ica.draw(0), **{name: value})


@pytest.mark.parametrize(("name", "value"), [("count", 0), ("noise", -1.0)])
def test_data_without_points_or_noise_are_rejected(name, value):
    with pytest.raises(TheoryError, check=about(name, value)):
        ica.draw(0, **{name: value})
