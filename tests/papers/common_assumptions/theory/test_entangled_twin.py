"""Entangled twins have the same images and ELBO, but lower scores."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

import unweave as uw
from tests.raising import about
from unweave.metrics.elbo import elbo
from unweave.models.model import Model, join
from unweave.papers.common_assumptions.theory import entangled_twin as twins
from unweave.papers.common_assumptions.theory import impossibility as imp
from unweave.papers.theory import TheoryError
from unweave.random import Stream


@pytest.fixture(scope="module")
def sprites():
    """48 sprites: three shapes at 4 × 4 places."""
    places = range(0, 32, 8)
    return uw.data.load("dsprites").slice(scale=[5], orientation=[0], posX=places, posY=places)


@pytest.fixture(scope="module")
def images(sprites):
    return np.asarray(sprites.images(sprites.support))


@pytest.fixture(scope="module")
def model(sprites):
    options = {"steps": 20, "batch": 8, "latents": 4, "optimiser": uw.Adam(lr=1e-3)}
    return uw.train(uw.methods.VAE(), sprites, progress=False, **options)[0]


@pytest.fixture(scope="module")
def twin(model):
    return twins.entangled_twin(model, alpha=0.2)


def test_codes_are_transformed_and_decode_to_the_same_images(model, twin, images):
    means, logvars = model.encode(images)
    turned, marginal = twin.encode(images)
    assert turned == pytest.approx(means @ imp.householder(4, 0.2), abs=1e-5)
    assert np.abs(turned - means).max() > 0.1
    assert twin.decode(turned) == pytest.approx(model.decode(means), abs=1e-5)
    assert np.exp(marginal) == pytest.approx(
        np.diagonal(twin.posterior(images)[1], axis1=1, axis2=2), rel=1e-5
    )
    codes = np.random.default_rng(0).normal(size=(20, 4))
    assert twin.decode(twin.transform(codes)) == pytest.approx(model.decode(codes), abs=1e-5)
    assert np.abs(twin.decode(codes) - model.decode(codes)).max() > 1e-3
    assert logvars.shape == marginal.shape


def test_the_posterior_is_transformed_with_the_density_of_the_jacobian(model, twin, images):
    """q'(z'|x) = q(f(z')|x) |det J|, computed in two independent ways."""
    means, logvars = (torch.as_tensor(part).double() for part in model.encode(images[:10]))
    mean, covariance = map(torch.as_tensor, twin.posterior(images[:10]))
    codes = torch.as_tensor(np.random.default_rng(1).normal(size=(10, 4)))
    f = imp.entangle([imp.PRIORS["normal"]] * 4, 0.2)
    back = torch.as_tensor(f(codes.numpy()))
    before = torch.distributions.Normal(means, (logvars / 2).exp()).log_prob(back).sum(1)
    expected = before + torch.as_tensor(f.log_det(codes.numpy()))
    found = MultivariateNormal(mean, covariance).log_prob(codes)
    assert found.numpy() == pytest.approx(expected.numpy(), abs=1e-4)


def test_the_elbo_equals_that_of_the_model(model, twin, images):
    means, logvars = model.encode(images)
    noise = Stream(3, twins.NOISE, 0).normal(*means.shape).numpy()
    decoded = model.decode(means + np.exp(logvars / 2) * noise)
    own = elbo(means, logvars=logvars, images=images, reconstructions=decoded)
    found = twin.elbo(images, seed=3)
    for name in ("elbo", "log_likelihood", "kl"):
        assert found[name] == pytest.approx(own[name], abs=1e-4), name
    mean, covariance = map(torch.as_tensor, twin.posterior(images))
    prior = MultivariateNormal(torch.zeros(4).double(), torch.eye(4).double())
    exact = kl_divergence(MultivariateNormal(mean, covariance), prior).mean().item()
    assert found["kl"] == pytest.approx(exact, abs=1e-5)


def test_elbo_averages_over_posterior_samples(twin, images):
    few = [twin.elbo(images[:8], seed=s)["log_likelihood"] for s in range(40)]
    many = twin.elbo(images[:8], seed=100, draws=40)["log_likelihood"]
    assert many == pytest.approx(np.mean(few), abs=4 * np.std(few) / math.sqrt(20))
    assert np.std(few) > 0


def test_a_factorised_posterior_lowers_the_elbo(model, images):
    """With noise that differs between latents, the twin's posterior is correlated."""
    plain = twins.entangled_twin(model, 0.2)
    noise = np.array([-6.0, -4.0, -2.0, 0.0])

    class Noisy(Model):
        def encode(self, images, seed=0, member=0):
            mean, _ = super().encode(images, seed, member)
            return mean, np.tile(noise, (len(mean), 1)).astype(np.float32)

    noisy = Noisy(**{name: getattr(model, name) for name in model.__dataclass_fields__})
    twin = twins.EntangledTwin(noisy, plain.matrix)
    whole, factorised = (twin.elbo(images, factorised=on)["kl"] for on in (False, True))
    precision = np.diag(plain.matrix @ np.diag(np.exp(-noise)) @ plain.matrix)
    spread = (1 / precision + np.log(precision)).sum() - (np.exp(noise) - noise).sum()
    assert factorised - whole == pytest.approx(spread / 2, abs=1e-4)
    assert factorised > whole + 1


def test_default_alpha_and_custom_matrices(model):
    assert twins.entangled_twin(model).matrix == pytest.approx(imp.householder(4, 0.25))
    turned = twins.entangled_twin(model, matrix=imp.cosine(4))
    assert turned.matrix == pytest.approx(imp.cosine(4))
    with pytest.raises(TheoryError, check=about("alpha", 0.2)):
        twins.entangled_twin(model, 0.2, imp.cosine(4))


def test_compare_scores_both_model_and_twin(model, twin, sprites, images):
    names = ["mig", "modularity", "elbo", "pixel_error"]
    table = twins.compare(model, sprites, names, alpha=0.2).set_index("metric")
    means, _ = twin.encode(images)
    factors = sprites.factors(sprites.support)
    assert table.loc["mig", "twin"] == pytest.approx(uw.metrics.mig(means, factors)["mig"])
    scores = uw.evaluate(model, sprites, names, progress=False).iloc[0]
    assert table["model"].to_dict() == pytest.approx(scores[table.index].to_dict(), abs=1e-6)
    for name in ("elbo", "elbo.log_likelihood", "elbo.kl", "elbo.squared_error", "pixel_error"):
        assert table.loc[name, "twin"] == pytest.approx(table.loc[name, "model"], abs=1e-4), name
    assert abs(table.loc["mig", "twin"] - table.loc["mig", "model"]) > 1e-3


def test_sampled_codes_are_transformed_samples(model, twin, sprites):
    names = ["mig", "elbo", "pixel_error"]
    table = twins.compare(model, sprites, names, alpha=0.2, sampled=True, seed=5)
    table = table.set_index("metric")
    drawn = uw.evaluation.codes.encode(model, sprites, 5).sampled(0)
    expected = uw.metrics.mig(twin.transform(drawn), sprites.factors(sprites.support), 5)["mig"]
    assert table.loc["mig", "twin"] == pytest.approx(expected)
    means = twins.compare(model, sprites, names, alpha=0.2, seed=5).set_index("metric")
    for name in ("elbo", "pixel_error"):
        assert table.loc[name, "twin"] == pytest.approx(table.loc[name, "model"], abs=1e-4)
        assert abs(table.loc[name, "twin"] - means.loc[name, "twin"]) > 1e-3


@pytest.mark.parametrize("method", [uw.methods.AE(), uw.methods.ISAVAE()])
def test_models_without_a_normal_prior_are_refused(method, sprites):
    other = uw.train(method, sprites, steps=1, batch=4, progress=False)[0]
    with pytest.raises(TheoryError, check=about("model", other.config.method.name)):
        twins.entangled_twin(other)


def test_a_fleet_is_refused(model):
    fleet = join([model])
    with pytest.raises(TheoryError, check=about("model", None)):
        twins.entangled_twin(fleet)
