"""Sparse components: the free energy against integrals and draws, and how it is climbed."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from unweave.errors import UnweaveError
from unweave.papers.isa_vae.theory import ica

BETAS = (1.0, 5.0)


@pytest.fixture(scope="module")
def case():
    data = ica.draw(7, count=20, noise=0.5)
    rng = np.random.default_rng(1)
    beliefs = ica.Beliefs(rng.normal(size=(20, 3)), rng.normal(-0.5, 0.5, size=(20, 3)))
    return data, beliefs


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
    beliefs = ica.Beliefs(np.array([[mean]], float), np.log([[scale]]))
    value = ica.free_energy(np.zeros((1, 2)), np.zeros((2, 1)), 1.0, beliefs)[0]
    entropy = np.log(scale) + 0.5 * np.log(2 * np.pi * np.e)
    assert value + np.log(2 * np.pi) - entropy == pytest.approx(exact, abs=2e-5)


@pytest.mark.parametrize("beta", BETAS)
def test_the_free_energy_agrees_with_monte_carlo(case, beta):
    data, beliefs = case
    found = ica.free_energy(data.observed, data.weights, data.noise, beliefs, beta)
    scales = np.exp(beliefs.log_scales)
    z = beliefs.means + scales * np.random.default_rng(2).normal(size=(10_000, 20, 3))
    log_likelihood = stats.norm(z @ data.weights.T, data.noise**0.5).logpdf(data.observed).sum(-1)
    log_prior = stats.t(3.5).logpdf(z).sum(-1)
    log_q = stats.norm(beliefs.means, scales).logpdf(z).sum(-1)
    drawn = log_likelihood / beta + log_prior - log_q
    assert (np.abs(found - drawn.mean(0)) < 4.5 * drawn.std(0) / 100).all()
    # The data points differ far more than the draws of their means do.
    assert np.std(found) > 5 * (drawn.std(0) / 100).max()


@pytest.mark.parametrize("beta", BETAS)
def test_gradients_agree_with_finite_differences(case, beta):
    data, beliefs = case
    found = ica.gradients(data.observed, data.weights, data.noise, beliefs, beta)

    def value(means, log_scales):
        moved = ica.Beliefs(means, log_scales)
        return ica.free_energy(data.observed, data.weights, data.noise, moved, beta)

    for k in range(3):
        step = 1e-5 * np.eye(3)[k]
        means, logs = beliefs.means, beliefs.log_scales
        by_mean = (value(means + step, logs) - value(means - step, logs)) / 2e-5
        by_scale = (value(means, logs + step) - value(means, logs - step)) / 2e-5
        assert found[0][:, k] == pytest.approx(by_mean, rel=1e-5, abs=1e-6)
        assert found[1][:, k] == pytest.approx(by_scale, rel=1e-5, abs=1e-6)


def test_beta_weighs_the_likelihood_against_all_else(case):
    data, beliefs = case
    one, two, four = (
        ica.free_energy(data.observed, data.weights, data.noise, beliefs, beta)
        for beta in (1, 2, 4)
    )
    assert one - two == pytest.approx(2 * (two - four))  # L/2 and L/4


def test_posteriors_settle_before_the_first_step():
    """No move of the posteriors gains anything at the true weights."""
    data = ica.draw(0)
    learner = ica._Learner(data, 5.0)
    learner.settle()
    slopes = ica.gradients(data.observed, data.weights, data.noise, learner.beliefs, 5.0)
    assert np.abs(slopes[1]).max() < 1e-3
    # Of the means, in units of their posterior's spread.
    assert np.abs(slopes[0] * np.exp(learner.beliefs.log_scales)).max() < 1e-3
    assert (learner.weights == data.weights).all()


def test_a_move_that_makes_a_data_point_worse_is_taken_back():
    """Half of them are made to go the wrong way."""
    learner = ica._Learner(ica.draw(0), 1.0)
    before, values = learner.beliefs, learner.values
    learner.reach[:150] = -ica.LONGEST
    learner._move()
    back = (learner.beliefs.means == before.means).all(1)
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
    before = learner.beliefs
    learner.step()

    def value(weights):
        return ica.free_energy(data.observed, weights, data.noise, before).mean()

    best = value(learner.weights)
    assert best > value(data.weights)
    rng = np.random.default_rng(0)
    for _ in range(10):
        assert value(learner.weights + 1e-3 * rng.normal(size=(2, 3))) < best


@pytest.mark.parametrize("beta", BETAS)
def test_the_free_energy_never_falls_from_the_truth_on(beta):
    data = ica.draw(3)
    way = ica.learn(data, beta, steps=300)
    assert (way.weights[0] == data.weights).all()
    assert np.diff(way.free_energy).min() > 0
    assert way.weights.shape == (301, 2, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ica.learn(ica.draw(0), steps=0), "steps must be a whole number from 1"),
        (lambda: ica.learn(ica.draw(0), beta=0.0), "β must be above 0, but got 0"),
        (lambda: ica.draw(0, count=0), "at least one point with noise, but got count=0"),
        (lambda: ica.draw(0, noise=-1.0), "noise=-1"),
    ],
)
def test_what_cannot_be_learned_is_refused(make, message):
    with pytest.raises(UnweaveError, match=message):
        make()
