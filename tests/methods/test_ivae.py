"""iVAE against the textbook, its divergence, what it identifies, and encoding with a factor."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.second_stages import blobs
from tests.methods.small_fleet import (
    CLASSES,
    LATENTS,
    MODELS,
    SMALLER,
    SmallFleet,
    equal,
    mean,
    random,
    sample,
)
from tests.raising import about
from unweave.data import Dataset
from unweave.data.grid import Factor, Grid
from unweave.data.stores import Floats
from unweave.errors import UnweaveError
from unweave.methods import IVAE, MSVAE, VAE, Posterior
from unweave.methods.ivae import GIVEN, PRIOR, kl_to_conditional_prior
from unweave.metrics.mcc import mcc
from unweave.models.config import Config
from unweave.models.encoding import posteriors
from unweave.random import Stream

METHOD = IVAE(**SMALLER["ivae"])
SMALL = {"batch": 16, "latents": 3, "architecture": "small_mlp", "device": "cpu"}


def textbook(fleet, m, method):
    reconstruction, kl = [], []
    data = zip(fleet.posteriors(m), fleet.noise(m), fleet.images[m], fleet.factors[m], strict=True)
    for (mu, logvar), noise, image, classes in data:
        u = [float(value == classes.item()) for value in range(method.classes)]
        given = fleet.network(GIVEN, m, [*mu, *logvar, *u])
        both = [a + b for a, b in zip([*mu, *logvar], given, strict=True)]
        log_lambda, means, logvars = fleet.network(PRIOR, m, u), both[:LATENTS], both[LATENTS:]
        z = sample(means, logvars, noise)
        reconstruction.append(fleet.cross_entropy(m, z, image))
        kl.append(
            0.5
            * sum(
                la - lv - 1 + g**2 / np.exp(la) + np.exp(lv) / np.exp(la)
                for la, lv, g in zip(log_lambda, logvars, means, strict=True)
            )
        )
    return {
        "model": mean(reconstruction) + mean(kl),
        "reconstruction": mean(reconstruction),
        "kl": mean(kl),
    }


def test_with_a_standard_prior_and_an_unused_factor_it_is_the_vae(double):
    fleet = SmallFleet.of(METHOD)
    off = {name: torch.zeros_like(fleet.parameters[name]) for name in (PRIOR, GIVEN)}
    fleet = replace(fleet, parameters={**fleet.parameters, **off})
    equal(fleet.losses(*[METHOD] * MODELS), fleet.losses(*[VAE()] * MODELS))


def test_the_divergence_is_that_of_monte_carlo():
    mu, logvar, log_lambda = random(3, 1, 1, 4, seed=0)
    posterior = Posterior(mu, logvar)
    z = posterior.sample(random(1, 400_000, 4, seed=1))
    prior = Posterior(torch.zeros_like(mu), log_lambda)
    drawn = (posterior.log_density(z) - prior.log_density(z)).sum(-1).mean()
    exact = kl_to_conditional_prior(posterior, log_lambda)
    assert exact.item() == pytest.approx(drawn.item(), rel=0.01)
    assert kl_to_conditional_prior(posterior, logvar * 0).item() == pytest.approx(
        posterior.kl().item(), rel=1e-12
    )


def segments(count, size=300, seed=0):
    """Two sources whose variances differ between segments, mixed nonlinearly, as images."""
    generator = np.random.default_rng(seed)
    deviations = generator.uniform(0.2, 3, size=(count, 1, 2))
    sources = (deviations * generator.normal(size=(count, size, 2))).reshape(-1, 2)
    mixed = sources @ generator.normal(size=(2, 32))
    mixed = mixed + 0.5 * np.tanh(mixed @ generator.normal(size=(32, 32)))
    rows = np.clip(mixed / mixed.std(0) / 8 + 0.5, 0, 1).astype(np.float32)
    grid = Grid((Factor("segment", range(count)), Factor("item", range(size))))
    constant = Grid((Factor("segment", range(1)), Factor("item", range(count * size))))
    store = Floats(rows.reshape(-1, 4, 8, 1))
    known, unknown = (Dataset("segments", store, grid=each) for each in (grid, constant))
    return sources, known, unknown


def test_only_a_factor_that_changes_the_prior_identifies_sources():
    sources, known, unknown = segments(20)
    shared = {
        "steps": 300,
        "batch": 128,
        "latents": 2,
        "architecture": "small_mlp",
        "likelihood": "narrow_gaussian",
        "learning_rate": 1e-2,
        "device": "cpu",
        "progress": False,
    }
    found = {}
    for name, method, data in (
        ("ivae", IVAE(factor="segment", classes=20), known),
        ("constant", IVAE(factor="segment", classes=1), unknown),
        ("vae", VAE(), known),
    ):
        (model,) = uw.train(method, data, **shared)
        found[name] = mcc(model.encode(data)[0], sources)["mcc"]
    assert found["ivae"] > 0.97
    assert found["ivae"] > found["vae"] + 0.03
    assert found["ivae"] > found["constant"] + 0.03


@pytest.fixture(scope="module")
def fleet():
    """An iVAE and a VAE of the blobs in one fleet."""
    methods = [IVAE(factor="factor_1", classes=6), VAE()]
    return uw.train(methods, blobs(), steps=4, progress=False, **SMALL)


def test_factors_come_with_the_data_or_by_name(fleet):
    data, model = blobs(), fleet[0]
    mean, logvar = model.encode(data)
    images, classes = data.images(np.arange(len(data))), data.factors(np.arange(len(data)))[:, 1]
    for given in (classes, torch.as_tensor(classes), classes.tolist()):
        again = model.encode(images, factors={"factor_1": given, "unused": [3]})
        assert np.array_equal(again[0], mean)
        assert np.array_equal(again[1], logvar)
    other = model.encode(images, factors={"factor_1": np.zeros(len(data), int)})[0]
    same = classes == 0
    assert np.array_equal(other[same], mean[same])
    assert (other[~same] != mean[~same]).any(1).all()
    one = model.encode(images[7], factors={"factor_1": classes[7:8]})[0]
    np.testing.assert_allclose(one, mean[7:8], atol=1e-6)


def test_mixed_fleets_encode_together(fleet):
    data, rows = blobs(), np.array([40, 3, 3, 71])
    both, (ivae, vae) = fleet.encode(data)[0], fleet
    assert np.array_equal(both[0], ivae.encode(data)[0])
    assert np.array_equal(both[1], vae.encode(data)[0])
    for models in (fleet, list(fleet)):
        np.testing.assert_allclose(posteriors(models, data, rows)[0], both[:, rows], atol=1e-6)
    table = uw.encode(ivae, data, device="cpu", progress=False)
    np.testing.assert_allclose(table.to_numpy(), both[0], atol=1e-6)
    assert uw.evaluate(fleet, data, ["mig"], device="cpu")["mig"].notna().all()


def test_weights_do_not_depend_on_the_fleet(fleet):
    (alone,) = uw.train(fleet[0].config.method, blobs(), steps=4, progress=False, **SMALL)
    assert alone.config == fleet[0].config
    assert (
        alone.parameters.keys()
        == fleet[0].parameters.keys()
        == {
            "encoder",
            "decoder",
            PRIOR,
            GIVEN,
        }
    )
    for name, parameters in alone.parameters.items():
        assert torch.equal(parameters, fleet[0].parameters[name])


def test_images_without_the_factor_are_refused(fleet):
    data, model = blobs(), fleet[0]
    images = data.images([0, 1])
    for factors in (None, {"factor_0": [0, 1]}):
        with pytest.raises(UnweaveError, check=about("factors", "factor_1")):
            model.encode(images, factors=factors)
    for wrong in ([0], [0, 6], [-1, 0], [0.0, 1.0]):
        with pytest.raises(UnweaveError, check=about("factors", "factor_1")):
            model.encode(images, factors={"factor_1": wrong})
    settings = {"batch": 4, "latents": 2, "architecture": "small_dcgan", "device": "cpu"}
    with pytest.raises(UnweaveError, check=about("factors", "factor_1")):
        uw.train(MSVAE(), data, first=fleet._some([0]), steps=1, **settings)


def test_the_number_of_values_must_be_that_of_the_data():
    with pytest.raises(UnweaveError, check=about("classes", 5)):
        uw.train(IVAE(factor="factor_1", classes=5), blobs(), steps=1, **SMALL)
    with pytest.raises(UnweaveError, check=about("classes", -1)):
        IVAE(factor="factor_1", classes=-1)
    with pytest.raises(UnweaveError, check=about("classes")):
        Config(method=IVAE(factor="factor_1"))
    with pytest.raises(UnweaveError, check=about("factor")):
        Config(method=IVAE(classes=3))


def test_a_saved_model_encodes_as_before(fleet, tmp_path):
    model = fleet[0]
    again = uw.load(model.save(tmp_path / "model"))
    assert again.config == model.config
    assert np.array_equal(again.encode(blobs())[0], model.encode(blobs())[0])


def test_prior_samples_have_the_variances_of_the_values(double):
    small = SmallFleet.of(METHOD)
    named = {
        f"{PRIOR}/{name}": value[0]
        for name, value in small.networks[PRIOR].named(small.parameters[PRIOR].float())
    }
    codes = METHOD.prior_samples(Stream(0, "prior"), 200_000, LATENTS, named)
    every = torch.eye(CLASSES, dtype=torch.float64)[None]
    log_lambda = small.networks[PRIOR](small.parameters[PRIOR][:1], every)[0]
    torch.testing.assert_close(
        codes.double().square().mean(0), log_lambda.exp().mean(0), rtol=0.03, atol=0
    )
