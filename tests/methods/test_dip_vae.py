"""DIP-VAE-I and -II against the textbook, and their covariances."""

import math

import numpy as np
import pytest
import torch

from tests.methods.small_fleet import IMAGES, LATENTS, MODELS, equal, mean, random
from unweave.methods import DIPVAEI, DIPVAEII, VAE, Posterior


def covariance_of_means(posteriors):
    """E[μ μᵀ] - E[μ] E[μ]ᵀ."""
    means = [mu for mu, _ in posteriors]
    return [
        [
            mean(mu[i] * mu[j] for mu in means)
            - mean(mu[i] for mu in means) * mean(mu[j] for mu in means)
            for j in range(LATENTS)
        ]
        for i in range(LATENTS)
    ]


def covariance_of_codes(posteriors):
    covariance = covariance_of_means(posteriors)
    for i in range(LATENTS):
        covariance[i][i] += mean(math.exp(logvar[i]) for _, logvar in posteriors)
    return covariance


def textbook(fleet, m, method):
    reconstruction, kl, _, posteriors = fleet.textbook_elbo(m)
    second = isinstance(method, DIPVAEII)
    covariance = (covariance_of_codes if second else covariance_of_means)(posteriors)
    loss = reconstruction + kl
    for i in range(LATENTS):
        for j in range(LATENTS):
            if i == j:
                loss += method.d_factor * method.lambda_od * (covariance[i][j] - 1) ** 2
            else:
                loss += method.lambda_od * covariance[i][j] ** 2
    return {"model": loss, "reconstruction": reconstruction, "kl": kl}


@pytest.fixture
def posterior():
    shape = (MODELS, IMAGES, LATENTS)
    return Posterior(random(*shape, seed=1) + 3, random(*shape, seed=2))


def test_the_covariance_of_the_means_divides_by_the_size_of_the_batch(posterior):
    found = DIPVAEI().covariance(posterior)
    for m in range(MODELS):
        expected = np.cov(posterior.mu[m].numpy(), rowvar=False, ddof=0)
        np.testing.assert_allclose(found[m], expected, rtol=1e-12)


def test_the_two_covariances_differ_by_the_mean_variances_of_the_posteriors(posterior):
    difference = DIPVAEII().covariance(posterior) - DIPVAEI().covariance(posterior)
    expected = torch.stack([torch.diag(v.exp().mean(0)) for v in posterior.logvar])
    torch.testing.assert_close(difference, expected, rtol=0, atol=1e-14)


def test_the_second_covariance_is_that_of_codes():
    mu, logvar = random(1, 1000, 2, seed=1), random(1, 1000, 2, seed=2)
    posterior = Posterior(mu.repeat(1, 100, 1), logvar.repeat(1, 100, 1))
    codes = posterior.sample(random(1, 100_000, 2, seed=3))[0]
    np.testing.assert_allclose(
        DIPVAEII().covariance(posterior)[0], np.cov(codes.T, ddof=0), atol=0.06
    )


@pytest.mark.parametrize("kind", [DIPVAEI, DIPVAEII])
def test_lambda_0_is_the_vae(fleet, kind):
    equal(fleet.losses(*[kind(lambda_od=0)] * MODELS), fleet.losses(*[VAE()] * MODELS))


def test_white_codes_have_the_identity_as_their_covariance():
    white = torch.tensor([[[1, 1], [1, -1], [-1, 1], [-1, -1]]]).double()
    torch.testing.assert_close(
        DIPVAEI().covariance(Posterior(white, white))[0], torch.eye(2).double()
    )
    halved = Posterior(white * math.sqrt(0.5), torch.full_like(white, math.log(0.5)))
    torch.testing.assert_close(DIPVAEII().covariance(halved)[0], torch.eye(2).double())
