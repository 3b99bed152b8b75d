"""What is read of models: shapes, informative latents, and codes of trained models."""

import dataclasses

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.analysis.latents import Latents, SelectionError
from unweave.models.shapes import ShapeError
from unweave.select.latents import encoded, latents_of


@pytest.fixture(scope="module")
def data():
    return uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)


def test_kl_is_computed_from_log_variances():
    means = np.array([[[0.0, 2.0, 0.1], [0.0, -2.0, -0.1]]])
    latents = Latents(means, np.log(np.array([[[1.0, 0.5, 1.0], [1.0, 0.5, 1.0]]])))
    expected = [0, (4 + 0.5 + np.log(2) - 1) / 2, 0.005]
    np.testing.assert_allclose(latents.kl[0], expected, atol=1e-12)
    assert latents.informative.tolist() == [[False, True, False]]


def test_the_threshold_is_that_of_the_paper_and_can_be_another():
    codes = np.random.default_rng(0).normal(size=(1, 50, 3))
    kl = [[0.01, 0.0101, 0.5]]
    assert Latents(codes, kl=kl).informative.tolist() == [[False, True, True]]
    assert Latents(codes, kl=kl, informative_kl=0.1).informative.tolist() == [[False, False, True]]


def test_standardised_codes_have_mean_0_and_variance_1(models):
    models[0, :, 1] = 4.2
    latents = Latents(models)
    for codes in (latents.standardised, latents.ranked):
        np.testing.assert_allclose(codes.mean(1), 0, atol=1e-12)
        deviation = np.ones((5, 4))
        deviation[0, 1] = 0
        np.testing.assert_allclose(codes.std(1), deviation, atol=1e-12)


def test_torch_and_arrays_are_the_same(models):
    tensor = torch.tensor(models, requires_grad=True)
    np.testing.assert_array_equal(latents_of(tensor).means, latents_of(models).means)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"means": np.zeros((3, 4))}, r"\[models, rows, latents\], but got \[3, 4\]"),
        ({"means": np.zeros((2, 9, 4)), "kl": np.zeros((2, 3))}, r"kl must be \[2, 4\]"),
        ({"means": np.zeros((2, 9, 4)), "logvars": np.zeros((2, 9, 3))}, "logvars must be"),
        ({"means": np.zeros((2, 9, 4)), "runs": ["a"]}, "runs must name each of 2"),
    ],
)
def test_wrong_shapes_are_named(arguments, words):
    with pytest.raises(SelectionError, match=words):
        Latents(**arguments)


def test_unused_latents_of_an_ensemble_are_not_informative(planted):
    images = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 1), dtype=np.uint8)
    data = uw.data.load(images)
    quick = {"steps": 1, "batch": 4, "latents": 4, "architecture": "small_mlp"}
    trained = uw.train(uw.methods.VAEEnsemble(members=3), data, progress=False, **quick)[0]
    model, _ = planted(trained, data)
    used = [True, True, False, True]
    assert latents_of(model, data).informative.tolist() == [used]
    assert latents_of(model.members, data).informative[0].tolist() == used
    assert uw.plots.drawn_codes.look(model, data).active.tolist() == used


def test_models_of_several_fleets_are_encoded_in_their_order(data):
    options = {"steps": 1, "batch": 4, "progress": False}
    first = uw.train(uw.methods.VAE(), data, seeds=2, **options)
    second = uw.train(uw.methods.BetaVAE(beta=4.0), data, seeds=1, **options)
    rows = np.array([5, 900, 17])
    latents = encoded([first[0], second, first[1]], data, rows)
    for place, model in enumerate((first[0], second[0], first[1])):
        mean, logvar = model.encode(data.images(rows))
        np.testing.assert_allclose(latents.means[place], mean, atol=1e-6)
        kl = 0.5 * (mean**2 + np.exp(logvar) - logvar - 1).mean(0)
        np.testing.assert_allclose(latents.kl[place], kl, atol=1e-6)
        assert latents.runs[place] == model.config.hash
    assert latents.settings[0] == latents.settings[2] != latents.settings[1]


def test_what_cannot_be_encoded_is_said(data):
    fleet = uw.train(uw.methods.VAE(), data, seeds=1, steps=1, batch=4, progress=False)
    with pytest.raises(SelectionError, match="with the data"):
        latents_of(fleet)
    with pytest.raises(ShapeError):
        latents_of(fleet, uw.data.load(np.zeros((4, 64, 64, 3), np.uint8)))


def test_models_that_diverged_have_no_codes(data):
    fleet = uw.train(uw.methods.VAE(), data, seeds=2, steps=1, batch=4, progress=False)
    lost = dataclasses.replace(fleet, diverged_at=np.array([-1, 0]))
    assert encoded(lost, data, np.arange(5)).usable.tolist() == [True, False]
    last = uw.select.pareto(lost, data, rows=20).iloc[-1]
    assert (last["model"], last["reason"]) == (1, "it diverged: its codes are not finite")
