"""β-TCVAE against the textbook, and what is known of its three terms."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import stats

from tests.methods.small_fleet import DATA_SIZE, IMAGES, LATENTS, MODELS, equal, mean, random, same
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.methods import VAE, BetaTCVAE, Posterior
from unweave.methods.beta_tc_vae import ESTIMATORS, decompose, log_weights


def log_normal(z, mu, logvar):
    return -0.5 * (math.log(2 * math.pi) + logvar + (z - mu) ** 2 / math.exp(logvar))


def weight(j, i, estimator):
    """How much image i counts in the density of the code of image j."""
    if estimator == "minibatch":
        return 1.0
    if estimator == "weighted":
        return 1 / (DATA_SIZE * IMAGES)
    others = IMAGES - 1
    if i == j:
        return 1 / DATA_SIZE
    if i == (j + 1) % IMAGES:
        return (DATA_SIZE - others) / (DATA_SIZE * others)
    return 1 / others


def three_terms(codes, posteriors, estimator):
    """Mutual information, total correlation and dimension-wise KL divergence of one model."""
    information, correlation, dimension_wise = [], [], []
    for j, z in enumerate(codes):
        joint, marginals = 0.0, [0.0] * LATENTS
        for i, (mu, logvar) in enumerate(posteriors):
            densities = [
                math.exp(log_normal(z[latent], mu[latent], logvar[latent]))
                for latent in range(LATENTS)
            ]
            joint += weight(j, i, estimator) * math.prod(densities)
            for latent in range(LATENTS):
                marginals[latent] += weight(j, i, estimator) * densities[latent]
        own = sum(log_normal(*values) for values in zip(z, *posteriors[j], strict=True))
        prior = sum(log_normal(value, 0, 0) for value in z)
        product = sum(math.log(marginal) for marginal in marginals)
        information.append(own - math.log(joint))
        correlation.append(math.log(joint) - product)
        dimension_wise.append(product - prior)
    return mean(information), mean(correlation), mean(dimension_wise)


def textbook(fleet, m, method):
    reconstruction, kl, codes, posteriors = fleet.textbook_elbo(m)
    information, correlation, dimension_wise = three_terms(codes, posteriors, method.estimator)
    loss = (
        reconstruction
        + kl
        + (method.alpha - 1) * information
        + (method.beta - 1) * correlation
        + (method.gamma - 1) * dimension_wise
    )
    return {"model": loss, "reconstruction": reconstruction, "kl": kl}


def test_the_published_setting_is_the_librarys_equation(fleet):
    """Rec + KL + (β - 1) mean_j [LSE_i Σ_l log q(z_jl|x_i) - Σ_l LSE_i log q(z_jl|x_i)]."""
    expected = []
    for m, beta in enumerate((2.0, 4.0, 8.0)):
        reconstruction, kl, codes, posteriors = fleet.textbook_elbo(m)
        mu, logvar = np.array(posteriors).transpose(1, 0, 2)
        scale = np.exp(logvar / 2)
        log_q = np.array([stats.norm.logpdf(z, mu, scale) for z in codes])  # [j, i, l]
        joint = np.logaddexp.reduce(log_q.sum(-1), 1)
        product = np.logaddexp.reduce(log_q, 1).sum(-1)
        loss = reconstruction + kl + (beta - 1) * (joint - product).mean()
        expected.append({"model": loss, "reconstruction": reconstruction, "kl": kl})
    same(fleet.losses(*[BetaTCVAE(beta=beta) for beta in (2.0, 4.0, 8.0)]), expected)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_beta_1_is_the_vae(fleet, estimator):
    plain = [BetaTCVAE(beta=1, estimator=estimator)] * MODELS
    equal(fleet.losses(*plain), fleet.losses(*[VAE()] * MODELS))


@pytest.fixture
def posterior():
    shape = (MODELS, IMAGES, LATENTS)
    return Posterior(random(*shape, seed=1), random(*shape, seed=2))


@pytest.fixture
def codes(posterior):
    return posterior.sample(random(*posterior.mu.shape, seed=3))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_three_terms_add_up_to_the_kl_divergence_of_the_sample(posterior, codes, estimator):
    parts = decompose(posterior, codes, estimator, DATA_SIZE)
    own = torch.distributions.Normal(posterior.mu, (posterior.logvar / 2).exp()).log_prob(codes)
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(codes)
    expected = (own - prior).sum(-1).mean(-1)
    torch.testing.assert_close(sum(parts), expected, rtol=1e-6, atol=1e-6)


def test_weighted_and_minibatch_total_correlation_differ_by_a_constant(posterior, codes):
    library = decompose(posterior, codes, "minibatch", DATA_SIZE).total_correlation
    weighted = decompose(posterior, codes, "weighted", DATA_SIZE).total_correlation
    constant = (LATENTS - 1) * math.log(DATA_SIZE * IMAGES)
    torch.testing.assert_close(weighted, library + constant, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_the_total_correlation_of_a_normal_code_is_found(correlation):
    """Many narrow posteriors that together make a normal law with a known total correlation."""
    num, variance = 1024, 0.1
    covariance = np.array([[1, correlation], [correlation, 1]]) - variance * np.eye(2)
    points = stats.norm.ppf(stats.qmc.Sobol(2, seed=0).random(num))
    mu = torch.from_numpy(points @ np.linalg.cholesky(covariance).T)[None]
    posterior = Posterior(mu, torch.full_like(mu, math.log(variance)))
    codes = posterior.sample(random(1, num, 2, seed=1))
    # The whole data set is the batch: each posterior counts 1 / num, a constant per latent.
    found = decompose(posterior, codes, "minibatch", num).total_correlation + math.log(num)
    assert found.item() == pytest.approx(-0.5 * math.log(1 - correlation**2), abs=0.04)


@pytest.mark.parametrize(("size", "data_size"), [(2, 2), (2, 9), (5, 5), (5, 11), (64, 737_280)])
def test_stratified_weights_of_every_code_sum_to_1(size, data_size):
    weights = log_weights(size, "stratified", data_size, torch.zeros(()).double()).exp()
    np.testing.assert_allclose(weights.sum(-1), np.ones(size), rtol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_the_stratified_estimate_of_the_density_is_unbiased(size):
    """Over all ordered batches of an image and size - 1 others, its mean is Σ q(z|x_n) / N."""
    densities = [0.1, 2.0, 0.7, 5.0, 0.3]
    weights = log_weights(size, "stratified", 5, torch.zeros(()).double()).exp().tolist()
    for own in range(5):
        for place in range(size):
            estimates = []
            for others in permutations(set(range(5)) - {own}, size - 1):
                batch = [*others[:place], own, *others[place:]]
                estimates.append(
                    sum(w * densities[n] for w, n in zip(weights[place], batch, strict=True))
                )
            assert mean(estimates) == pytest.approx(mean(densities), rel=1e-12)


@pytest.mark.parametrize(("size", "data_size"), [(1, 10), (11, 10)])
def test_stratified_sampling_needs_a_batch_within_the_data_set(size, data_size):
    with pytest.raises(UnweaveError, check=about("batch")):
        log_weights(size, "stratified", data_size, torch.zeros(()))


def test_an_unknown_estimator_is_named_with_the_known_ones():
    with pytest.raises(UnweaveError, check=about("estimator", "exact")):
        BetaTCVAE(estimator="exact")


def test_the_published_setting_weighs_only_the_total_correlation():
    assert (BetaTCVAE().alpha, BetaTCVAE().gamma, BetaTCVAE().estimator) == (1, 1, "minibatch")
