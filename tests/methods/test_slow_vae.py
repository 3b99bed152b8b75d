"""SlowVAE against the textbook, both weightings, and what its pairs are."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

import unweave as uw
from tests.methods.small_fleet import IMAGES, LATENTS, MODELS, mean, sample
from tests.raising import about
from unweave.data.pairs import LaplaceTransitions, Neighbours, UniformTransitions
from unweave.errors import UnweaveError
from unweave.methods import VAE, Batch, SlowVAE
from unweave.methods.slow_vae import expected_distance
from unweave.random import Stream


def cross_entropy(mu, logvar, location, rate):
    """-E log of Laplace's density of N(μ, σ²), as the reference writes it, of one image."""
    total = 0.0
    for m1, v, m0 in zip(mu, logvar, location, strict=True):
        m, sigma = m1 - m0, math.exp(v / 2)
        total += -math.log(rate / 2)
        total += rate * sigma * math.sqrt(2 / math.pi) * math.exp(-(m**2) / (2 * sigma**2))
        total += rate * m * (1 - 2 * stats.norm.cdf(-m / sigma))
    return total


def entropy(logvar):
    return sum(0.5 * (v + math.log(2 * math.pi * math.e)) for v in logvar)


def normal_cross_entropy(mu, logvar):
    return sum(
        0.5 * (m**2 + math.exp(v) + math.log(2 * math.pi)) for m, v in zip(mu, logvar, strict=True)
    )


def textbook(fleet, m, method):
    zero, one = fleet.posteriors(m), fleet.posteriors(m, fleet.partners)
    noise = Stream(int(fleet.seeds[m]), "posterior", int(fleet.step)).normal(2 * IMAGES, LATENTS)
    images = [*fleet.images[m], *fleet.partners[m]]
    r = mean(
        fleet.cross_entropy(m, sample(*q, e), x)
        for q, e, x in zip([*zero, *one], noise.tolist(), images, strict=True)
    )
    h = mean(entropy(logvar) for _, logvar in [*zero, *one])
    ce_n = mean(normal_cross_entropy(*q) for q in [*zero, *one])
    pairs, rate = list(zip(zero, one, strict=True)), method.rate
    ce01 = mean(cross_entropy(*b, a[0], rate) for a, b in pairs)
    ce10 = mean(cross_entropy(*a, b[0], rate) for a, b in pairs)
    pair = 0.5 * (ce01 + ce10) - h if method.consistent else ce01 + ce10 - h
    loss = 2 * r + method.beta * (ce_n - h) + method.gamma * pair
    return {"model": loss, "reconstruction": r, "kl": ce_n - h, "transition": pair}


def test_without_the_pair_it_is_a_vae_on_both_frames(fleet):
    frames = torch.cat([fleet.images, fleet.partners], 1)
    batch = Batch(frames, fleet.seeds, fleet.step, 11)
    vae = VAE().losses(fleet.nets(), batch)
    slow = fleet.losses(*[SlowVAE(gamma=0, beta=2)] * MODELS)
    torch.testing.assert_close(slow.groups["model"], 2 * vae.groups["model"])
    for name in ("reconstruction", "kl"):
        torch.testing.assert_close(slow.terms[name], vae.terms[name])
    usual = fleet.losses(*[SlowVAE(gamma=0)] * MODELS)
    torch.testing.assert_close(
        usual.groups["model"], 2 * vae.terms["reconstruction"] + vae.terms["kl"]
    )


@pytest.mark.parametrize(("m", "sigma", "rate"), [(0.3, 0.2, 6.0), (-1.5, 0.7, 2.0), (0, 1, 1)])
def test_the_cross_entropy_is_that_of_monte_carlo(m, sigma, rate):
    z = np.random.default_rng(0).normal(m, sigma, size=1_000_000)
    drawn = -stats.laplace.logpdf(z, scale=1 / rate).mean()
    of_formula = cross_entropy([m], [2 * math.log(sigma)], [0.0], rate)
    distance = expected_distance(*torch.tensor([[m], [sigma]], dtype=torch.float64))
    assert of_formula == pytest.approx(drawn, abs=0.01)
    assert rate * distance.item() - math.log(rate / 2) == pytest.approx(of_formula, rel=1e-12)


def test_the_consistent_pair_term_is_a_divergence():
    """KL divergences are never below 0; the reference's weighting is no divergence."""
    generator = np.random.default_rng(1)
    for rate in (0.5, 2.0, 6.0):
        mu = torch.from_numpy(generator.normal(size=(1, 40, 3)))
        logvar = torch.from_numpy(2 * generator.normal(size=(1, 40, 3)))
        frames = uw.methods.Posterior(mu, logvar)
        consistent = SlowVAE(rate=rate, consistent=True).transition(frames)
        assert consistent > 0
        reference = SlowVAE(rate=rate).transition(frames)
        h = mean(entropy(row) for row in logvar[0].tolist())
        torch.testing.assert_close(reference - consistent, consistent + h)
    # The best posterior that a rate of 6 can have is 0.2 nats a latent away.
    steady = uw.methods.Posterior(torch.zeros(1, 2, 1), torch.full((1, 2, 1), -3.4))
    assert 0 < SlowVAE(consistent=True).transition(steady) < 0.3


@pytest.mark.parametrize("transitions", ["laplace", "uniform"])
def test_no_pair_is_of_equal_images_and_laplace_keeps_the_shape(transitions):
    data = uw.data.load("dsprites")
    rule = SlowVAE(transitions=transitions).pair_rule()
    one, two = data.draw_pairs(500, rule=rule)
    assert (one.factors != two.factors).any(1).all()
    shapes = one.factors[:, 0] != two.factors[:, 0]
    assert not shapes.any() if transitions == "laplace" else shapes.any()


def test_settings_are_checked():
    assert SlowVAE().pair_rule() == LaplaceTransitions()
    assert SlowVAE(transitions="uniform").pair_rule() == UniformTransitions()
    assert SlowVAE(transitions="neighbours").pair_rule() == Neighbours()
    assert (SlowVAE().beta, SlowVAE().gamma, SlowVAE().rate) == (1, 10, 6)
    assert [method.rate for method in SlowVAE(rate=[1, 6]).grid()] == [1, 6]
    with pytest.raises(UnweaveError, check=about("kind of transitions", "laplac")):
        SlowVAE(transitions="laplac")
    with pytest.raises(UnweaveError, check=about("rate")):
        SlowVAE(rate=[1, 0])


def test_missing_pairs_raise_an_error(fleet):
    with pytest.raises(UnweaveError, check=about("pairs", "slow_vae")):
        replace(fleet, partners=None).losses(*[SlowVAE()] * MODELS)
