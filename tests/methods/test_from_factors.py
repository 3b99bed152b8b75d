"""Images from factors: the formula, what a batch is given, and a supervised second stage."""

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.second_stages import blobs
from tests.methods.small_fleet import mean
from tests.raising import about
from unweave.data.dataset import scaled_factors
from unweave.errors import UnweaveError
from unweave.fleet.engine import Engine
from unweave.methods import CGAN, MSGAN, FromFactors
from unweave.models.config import Config
from unweave.nets.adam import Adam

PLACES = "factor_1,factor_2"
SMALL = {"architecture": "small_dcgan", "device": "cpu", "progress": False}
ADAM = Adam(lr=3e-3)


def textbook(fleet, m, method):
    del method
    decode, squares = fleet.alone(m).nets().decode, []
    for factors, image in zip(fleet.factors[m], fleet.images[m], strict=True):
        pixels = decode(factors[None, None]).sigmoid().flatten()
        squares += [float(x - y) ** 2 for x, y in zip(image.flatten(), pixels, strict=True)]
    return {"model": mean(squares), "squared_error": mean(squares)}


def config(seed=0):
    method, shared = FromFactors(known_factors=PLACES), {"architecture": "small_dcgan", "batch": 4}
    return Config(method=method, seed=seed, latents=2, **shared)


def test_a_batch_has_the_factors_of_its_images():
    data = blobs()
    batch = Engine([config(0), config(1)], data, "cpu")._batches()[0]
    expected = scaled_factors(data, PLACES.split(","))[batch.indices]
    assert torch.equal(batch.factors, expected)
    assert batch.factors.shape == (2, 4, 2)


def test_other_methods_are_given_no_factors():
    other = Config(method=uw.methods.VAE(), architecture="small_mlp", batch=4)
    assert Engine([other], blobs(), "cpu")._batches()[0].factors is None


@pytest.fixture(scope="module")
def first():
    method = FromFactors(known_factors=PLACES)
    return uw.train(method, blobs(), steps=80, batch=16, latents=2, optimiser=ADAM, **SMALL)


def centres(images):
    """Where images are bright, down and right, `[n, 2]`."""
    weight, at = images[..., 0], np.arange(32)
    total = weight.sum((1, 2))
    return np.stack([(weight.sum(2) @ at) / total, (weight.sum(1) @ at) / total], -1)


def test_decoded_positions_follow_the_factors(first):
    data = blobs()
    codes = scaled_factors(data, PLACES.split(",")).numpy()
    drawn = centres(first[0].decode(codes))
    for k in range(2):
        assert np.corrcoef(drawn[:, k], codes[:, k])[0, 1] > 0.95


@pytest.mark.parametrize("kind", [MSGAN, CGAN])
def test_second_stages_receive_the_factors(first, kind):
    seen = []

    class Watched(kind):
        def condition(self, first, c):
            seen.append(c)
            return super().condition(first, c)

    two = Config(
        method=Watched(), latents=3, batch=4, architecture="small_dcgan", first=first[0].config
    )
    engine = Engine([two], blobs(), "cpu", first.parameters)
    expected = scaled_factors(blobs(), PLACES.split(","))[engine._batches()[0].indices]
    assert torch.equal(seen[0], expected)


def test_models_of_factors_cannot_encode(first):
    two = uw.train(MSGAN(), blobs(), first=first, steps=1, batch=4, latents=3, **SMALL)
    assert two[0].decode(np.zeros((2, 5), np.float32)).shape == (2, 32, 32, 1)
    for model in (first[0], two[0]):
        with pytest.raises(UnweaveError, check=about("codes")):
            model.encode(blobs().images([0]))


def test_the_number_of_latents_must_match_the_factors():
    with pytest.raises(UnweaveError, check=about("latents")):
        Config(method=FromFactors(known_factors=PLACES), latents=3)
    with pytest.raises(UnweaveError, check=about("known_factors")):
        Config(method=FromFactors(), latents=3)
    with pytest.raises(UnweaveError, check=about("known_factors")):
        FromFactors(known_factors="posX,,posY")
    for wrong in (None, 3):
        with pytest.raises(UnweaveError, check=about("known_factors", wrong)):
            FromFactors(known_factors=wrong)
