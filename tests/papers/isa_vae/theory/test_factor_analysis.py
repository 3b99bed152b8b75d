"""Factor analysis: closed forms against brute force, Monte Carlo and finite differences."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tests.raising import about
from unweave.papers.isa_vae.theory import factor_analysis as fa
from unweave.papers.theory import TheoryError

BETAS = (0.5, 1.0, 4.0)


@pytest.fixture(scope="module")
def case():
    """Unequal noise, correlated weights, data that the weights do not explain."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, 4))
    observed = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)) + 0.5
    noise = np.array([0.3, 0.7, 1.1])
    return weights, noise, observed


def moment(observed):
    return observed.T @ observed / len(observed)


def test_the_log_likelihood_is_that_of_a_normal_distribution(case):
    weights, noise, observed = case
    law = multivariate_normal(np.zeros(3), weights @ weights.T + np.diag(noise))
    found = fa.log_likelihood(weights, noise, moment(observed))
    assert found == pytest.approx(law.logpdf(observed).mean(), rel=1e-12)


@pytest.mark.parametrize("beta", BETAS)
def test_both_terms_agree_with_monte_carlo(case, beta):
    weights, noise, observed = case
    found = fa.free_energy(weights, noise, moment(observed), beta)
    q = fa.posterior(weights, noise, beta)
    rng = np.random.default_rng(1)
    means = np.repeat(observed @ q.recognition.T, 500, axis=0)
    z = means + np.sqrt(q.variances) * rng.normal(size=means.shape)
    missed = np.repeat(observed, 500, axis=0) - z @ weights.T
    log_likelihood = -0.5 * (missed**2 / noise + np.log(2 * np.pi * noise)).sum(1)
    log_q = -0.5 * ((z - means) ** 2 / q.variances + np.log(2 * np.pi * q.variances)).sum(1)
    log_p = -0.5 * (z**2 + np.log(2 * np.pi)).sum(1)
    for exact, drawn in (
        (found.reconstruction, log_likelihood / beta),
        (found.kl, log_q - log_p),
    ):
        assert exact == pytest.approx(drawn.mean(), abs=4 * drawn.std() / len(drawn) ** 0.5)
        assert drawn.std() / len(drawn) ** 0.5 < 0.02
    assert found.value == found.reconstruction - found.kl


@pytest.mark.parametrize("beta", BETAS)
def test_no_other_factorised_posterior_has_a_larger_free_energy(case, beta):
    """The free energy of any q by its definition, at the best one and near it."""
    weights, noise, observed = case

    def of(means, variances):
        missed = observed - means @ weights.T
        error = (missed**2 / noise).sum(1) + (weights**2 * variances / noise[:, None]).sum()
        reconstruction = -0.5 * (error + np.log(2 * np.pi * noise).sum())
        kl = 0.5 * ((variances - 1 - np.log(variances)).sum() + (means**2).sum(1))
        return (reconstruction / beta - kl).mean()

    q = fa.posterior(weights, noise, beta)
    means = observed @ q.recognition.T
    best = of(means, q.variances)
    assert fa.free_energy(weights, noise, moment(observed), beta).value == pytest.approx(best)
    rng = np.random.default_rng(2)
    for _ in range(20):
        assert of(means + 0.01 * rng.normal(size=4), q.variances) < best
        assert of(means, q.variances * np.exp(0.01 * rng.normal(size=4))) < best


@pytest.mark.parametrize("beta", BETAS)
def test_the_gradient_agrees_with_finite_differences(case, beta):
    weights, noise, observed = case
    second = moment(observed)
    found = fa.gradient(weights, noise, second, beta)
    for place in np.ndindex(*weights.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = weights.copy()
            moved[place] += step
            ends.append(fa.free_energy(moved, noise, second, beta).value)
        assert found[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-9)


def test_the_gap_is_log_likelihood_minus_free_energy(case):
    weights, noise, observed = case
    second = moment(observed)
    missing = fa.log_likelihood(weights, noise, second)
    missing -= fa.free_energy(weights, noise, second).value
    assert missing > 0.1
    assert fa.gap(weights, noise) == pytest.approx(missing, rel=1e-10)


@pytest.mark.parametrize("beta", BETAS)
def test_any_beta_is_a_bound_of_the_likelihood_with_noise_beta_times_as_large(case, beta):
    """To the power 1/β, N(x; W z, D) is N(x; W z, β D) but for a factor that is known."""
    weights, noise, observed = case
    second = moment(observed)
    factor = 0.5 * np.log(2 * np.pi * beta * noise).sum()
    factor -= 0.5 * np.log(2 * np.pi * noise).sum() / beta
    bound = fa.log_likelihood(weights, beta * noise, second) + factor
    found = fa.free_energy(weights, noise, second, beta).value
    assert bound - found == pytest.approx(fa.gap(weights, noise, beta), rel=1e-10)


@pytest.mark.parametrize("beta", BETAS)
def test_the_free_energy_never_falls_and_ends_at_a_zero_gradient(case, beta):
    weights, noise, observed = case
    second = moment(observed)
    way = fa.ascend(weights, noise, second, beta, steps=1500)
    assert np.diff(way.free_energy).min() > -1e-12
    assert way.free_energy[-1] > way.free_energy[0] + 0.05
    assert np.abs(fa.gradient(way.weights[-1], noise, second, beta)).max() < 1e-3
    assert np.abs(fa.gradient(weights, noise, second, beta)).max() > 0.05
    again = fa.free_energy(way.weights[-1], noise, second, beta).value
    assert way.free_energy[-1] == again


@pytest.mark.parametrize("beta", [1.0, 3.0, 30.0])
def test_the_best_weights_match_learning_and_have_orthogonal_columns(beta):
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    second, noise = turn @ np.diag([4.0, 1.5, 0.4]) @ turn.T, np.full(3, 0.1)
    best = fa.best_weights(second, 0.1, beta, latents=4)
    lengths = np.sqrt(np.maximum(np.array([4.0, 1.5, 0.4, 0]) - beta * 0.1, 0))
    assert np.linalg.norm(best, axis=0) == pytest.approx(lengths * [1, 1, 1, 0], abs=1e-12)
    assert best.T @ best == pytest.approx(np.diag(np.diag(best.T @ best)), abs=1e-12)
    most = fa.free_energy(best, noise, second, beta).value
    ends = [
        fa.ascend(rng.normal(size=(3, 4)), noise, second, beta, steps=400).free_energy[-1]
        for _ in range(5)
    ]
    assert max(ends) <= most + 1e-12
    assert max(ends) == pytest.approx(most, abs=1e-4)


def test_more_beta_means_wider_posteriors_up_to_the_prior(case):
    weights, noise, _ = case
    spread = [fa.posterior(weights, noise, beta).variances for beta in (0.1, 1, 10, 1e6)]
    assert (np.diff(spread, axis=0) > 0).all()
    assert spread[-1] == pytest.approx(np.ones(4), abs=1e-4)


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan"), float("inf")])
def test_a_beta_that_is_not_positive_is_rejected(case, beta):
    weights, noise, observed = case
    with pytest.raises(TheoryError, check=about("beta")):
        fa.free_energy(weights, noise, moment(observed), beta)
