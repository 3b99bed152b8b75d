"""Ada-GVAE and Ada-ML-VAE against the textbook, and what they share."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from tests.methods.small_fleet import LATENTS, MODELS, kl_to_prior, mean, random, sample
from tests.raising import about
from unweave.data.pairs import WeakPairs
from unweave.errors import UnweaveError
from unweave.methods import VAE, AdaGVAE, AdaMLVAE, Pairs, Posterior
from unweave.methods.ada_gvae import is_shared


def average_of_variances(mu1, var1, mu2, var2):
    return (mu1 + mu2) / 2, (var1 + var2) / 2


def product_of_posteriors(mu1, var1, mu2, var2):
    var = 2 * var1 * var2 / (var1 + var2)
    return (mu1 / var1 + mu2 / var2) * var / 2, var


AVERAGES = {AdaGVAE: average_of_variances, AdaMLVAE: product_of_posteriors}


def adapt(one, two, average):
    """The posteriors of a pair with what they share averaged, and how many latents that was."""
    (mu1, logvar1), (mu2, logvar2) = one, two
    distances = []
    for m1, v1, m2, v2 in zip(mu1, logvar1, mu2, logvar2, strict=True):
        distances.append(math.exp(v1 - v2) + (m2 - m1) ** 2 / math.exp(v2) - 1 + v2 - v1)
    middle = (min(distances) + max(distances)) / 2
    new1, new2, shared = ([], []), ([], []), 0
    for latent, distance in enumerate(distances):
        own1, own2 = (mu1[latent], logvar1[latent]), (mu2[latent], logvar2[latent])
        if distance < middle:
            shared += 1
            mu, var = average(own1[0], math.exp(own1[1]), own2[0], math.exp(own2[1]))
            own1 = own2 = mu, math.log(var)
        for new, own in ((new1, own1), (new2, own2)):
            new[0].append(own[0])
            new[1].append(own[1])
    return new1, new2, shared


def textbook(fleet, m, method):
    average = AVERAGES[type(method)]
    first, second = fleet.posteriors(m), fleet.posteriors(m, fleet.partners)
    noise1, noise2 = fleet.noise(m, "posterior first"), fleet.noise(m, "posterior second")
    reconstructions, kls = [], []
    for b, (one, two) in enumerate(zip(first, second, strict=True)):
        new1, new2, _ = adapt(one, two, average)
        reconstructions += [
            fleet.cross_entropy(m, sample(*new1, noise1[b]), fleet.images[m, b]),
            fleet.cross_entropy(m, sample(*new2, noise2[b]), fleet.partners[m, b]),
        ]
        kls += [kl_to_prior(*new1), kl_to_prior(*new2)]
    reconstruction, kl = mean(reconstructions), mean(kls)
    loss = reconstruction + method.beta * kl
    return {"model": loss, "reconstruction": reconstruction, "kl": kl}


def test_losses_match_the_formula_for_one_and_two_shared_latents(fleet):
    pairs = [
        pair
        for m in range(MODELS)
        for pair in zip(fleet.posteriors(m), fleet.posteriors(m, fleet.partners), strict=True)
    ]
    assert {adapt(*pair, average_of_variances)[2] for pair in pairs} == {1, 2}


def posterior(mu, var):
    mu, var = torch.tensor([mu, var], dtype=torch.float64)
    return Posterior(mu[None, None], var.log()[None, None])


@pytest.mark.parametrize("kind", [AdaGVAE, AdaMLVAE])
def test_a_pair_of_equal_images_keeps_its_posterior(fleet, kind):
    fleet = replace(fleet, partners=fleet.images)
    found = fleet.losses(*[kind()] * MODELS)
    for m in range(MODELS):
        posteriors, reconstructions = fleet.posteriors(m), []
        for place in ("first", "second"):
            noise = fleet.noise(m, f"posterior {place}")
            for q, e, image in zip(posteriors, noise, fleet.images[m], strict=True):
                reconstructions.append(fleet.cross_entropy(m, sample(*q, e), image))
        assert found.terms["reconstruction"][m].item() == pytest.approx(mean(reconstructions))
    torch.testing.assert_close(found.terms["kl"], fleet.losses(*[VAE()] * MODELS).terms["kl"])


def test_a_single_latent_is_never_shared():
    one, two = posterior([0.3], [0.5]), posterior([2.0], [1.5])
    assert not is_shared(one, two).any()


def test_all_latents_but_the_one_that_changed_are_shared():
    one = posterior([0.0, 1.0, -1.0, 2.0], [0.1, 0.2, 0.3, 0.4])
    two = posterior([0.0, 1.0, 3.0, 2.0], [0.1, 0.2, 0.3, 0.4])
    assert is_shared(one, two).tolist() == [[[True, True, False, True]]]


def test_only_the_unchanged_latent_is_shared():
    one = posterior([0.0, 1.0, -1.0, 2.0], [1.0] * 4)
    two = posterior([2.0, 3.0, -1.0, 4.0], [1.0] * 4)
    assert is_shared(one, two).tolist() == [[[False, False, True, False]]]


def test_a_latent_halfway_between_least_and_most_is_not_shared():
    one = posterior([0.0] * 3, [1.0] * 3)
    halfway = posterior([1.0, 5.0, 7.0], [1.0] * 3)  # 25 is the middle of 1 and 49
    nearer = posterior([1.0, 4.9, 7.0], [1.0] * 3)
    assert is_shared(one, halfway).tolist() == [[[True, False, False]]]
    assert is_shared(one, nearer).tolist() == [[[True, True, False]]]


def test_shared_latents_depend_on_the_divergence_of_first_from_second():
    shape = (4, 50, LATENTS)
    one = Posterior(random(*shape, seed=1), 2 * random(*shape, seed=2))
    two = Posterior(random(*shape, seed=3), 2 * random(*shape, seed=4))
    normals = [Normal(q.mu, (q.logvar / 2).exp()) for q in (one, two)]

    def expected(distance):
        least, most = distance.amin(-1, keepdim=True), distance.amax(-1, keepdim=True)
        return distance < (least + most) / 2

    assert torch.equal(is_shared(one, two), expected(kl_divergence(*normals)))
    assert not torch.equal(is_shared(one, two), expected(kl_divergence(*normals[::-1])))


def test_ada_gvae_averages_means_and_variances():
    shared = AdaGVAE().average(posterior([0.0], [1.0]), posterior([3.0], [4.0]))
    assert shared.mu.item() == pytest.approx(1.5)
    assert shared.logvar.exp().item() == pytest.approx(2.5)


def test_ada_ml_vae_takes_the_product_of_the_posteriors_with_twice_its_variance():
    shared = AdaMLVAE().average(posterior([0.0], [1.0]), posterior([3.0], [4.0]))
    z = np.linspace(-20, 20, 40_001)
    product = np.exp(-0.5 * z**2 - 0.5 * (z - 3) ** 2 / 4)
    product /= product.sum()
    centre = (z * product).sum()
    assert shared.mu.item() == pytest.approx(centre)
    assert shared.logvar.exp().item() == pytest.approx(2 * ((z - centre) ** 2 * product).sum())


def test_averages_agree_for_equal_variances():
    one, two = posterior([0.0, 1.0], [0.5, 2.0]), posterior([3.0, -1.0], [0.5, 2.0])
    simple, product = AdaGVAE().average(one, two), AdaMLVAE().average(one, two)
    torch.testing.assert_close(simple.mu, product.mu)
    torch.testing.assert_close(simple.logvar, product.logvar)


@pytest.mark.parametrize("kind", [AdaGVAE, AdaMLVAE])
def test_missing_pairs_raise_an_error(fleet, kind):
    assert issubclass(kind, Pairs)
    assert kind(changed=3).pair_rule() == WeakPairs(changed=3)
    with pytest.raises(UnweaveError, check=about("pairs", kind.name)):
        replace(fleet, partners=None).losses(*[kind()] * MODELS)
