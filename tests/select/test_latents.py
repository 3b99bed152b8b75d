"""Codes for model selection, from arrays or trained models."""

import dataclasses

import numpy as np
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.analysis.latents import SelectionError
from unweave.models.images import ShapeError
from unweave.plots.drawn_codes import draw_codes
from unweave.select.latents import encoded, latents_of
from unweave.select.ranking import DIVERGED


@pytest.fixture(scope="module")
def data():
    return uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)


def test_torch_and_arrays_are_the_same(models):
    tensor = torch.tensor(models, requires_grad=True)
    np.testing.assert_array_equal(latents_of(tensor).means, latents_of(models).means)


def test_unused_latents_of_an_ensemble_are_not_informative(planted):
    images = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 1), dtype=np.uint8)
    data = uw.data.load(images)
    quick = {"steps": 1, "batch": 4, "latents": 4, "architecture": "small_mlp"}
    trained = uw.train(uw.methods.VAEEnsemble(members=3), data, progress=False, **quick)[0]
    model, _ = planted(trained, data)
    used = [True, True, False, True]
    assert latents_of(model, data).informative.tolist() == [used]
    assert latents_of(model.members, data).informative[0].tolist() == used
    assert draw_codes(model, data).active.tolist() == used


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


def test_models_that_cannot_be_encoded_are_rejected(data):
    fleet = uw.train(uw.methods.VAE(), data, seeds=1, steps=1, batch=4, progress=False)
    with pytest.raises(SelectionError, check=about("data", None)):
        latents_of(fleet)
    with pytest.raises(ShapeError):
        latents_of(fleet, uw.data.load(np.zeros((4, 64, 64, 3), np.uint8)))


def test_diverged_models_have_no_codes(data):
    fleet = uw.train(uw.methods.VAE(), data, seeds=2, steps=1, batch=4, progress=False)
    lost = dataclasses.replace(fleet, diverged_at=np.array([-1, 0]))
    assert encoded(lost, data, np.arange(5)).usable.tolist() == [True, False]
    last = uw.select.pareto(lost, data, rows=20).iloc[-1]
    assert (last["model"], last["reason"]) == (1, DIVERGED)
