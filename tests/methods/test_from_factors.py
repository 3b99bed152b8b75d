"""Images from factors: the formula, what a batch is given, and a supervised second stage."""

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.second_stages import LATENTS, SmallStages, blobs, same_alone
from tests.methods.small_fleet import IMAGES, MODELS, mean, random, same
from unweave.data.scaled import scaled_factors
from unweave.errors import UnweaveError
from unweave.fleet.engine import Engine
from unweave.methods import CGAN, MSGAN, Batch, FromFactors
from unweave.models.config import Config
from unweave.nets.adam import Adam
from unweave.nets.layers import Linear, Reshape
from unweave.nets.network import Network

PLACES = "factor_1,factor_2"
SMALL = {"architecture": "small_dcgan", "device": "cpu", "progress": False}
ADAM = Adam(lr=3e-3)


def test_the_loss_is_the_mean_square(double):
    networks = {"decoder": Network((Linear(LATENTS, 16, "none"), Reshape((4, 4, 1))))}
    stages, factors = SmallStages.make(networks), random(MODELS, IMAGES, LATENTS, seed=5)
    nets, expected = stages.nets(), []
    for m in range(MODELS):
        alone, squares = stages.alone(m), []
        for b in range(IMAGES):
            drawn = alone.nets().decode(factors[m : m + 1, b : b + 1]).sigmoid()
            pairs = zip(alone.images[0, b].flatten(), drawn.flatten(), strict=True)
            squares += [float(x - y) ** 2 for x, y in pairs]
        expected.append({"model": mean(squares), "squared_error": mean(squares)})
    batch = Batch(stages.images, stages.seeds, stages.step, 11, factors=factors)
    same(FromFactors(told="a,b,c").losses(nets, batch), expected)


def config(seed=0):
    method, shared = FromFactors(told=PLACES), {"architecture": "small_dcgan", "batch": 4}
    return Config(method=method, seed=seed, latents=2, **shared)


def test_a_batch_has_the_factors_of_its_images():
    data = blobs()
    batch = Engine([config(0), config(1)], data, "cpu")._batch()
    expected = scaled_factors(data, PLACES.split(","))[batch.indices]
    assert torch.equal(batch.factors, expected)
    assert batch.factors.shape == (2, 4, 2)


def test_a_fleet_trains_what_each_would_be_alone():
    same_alone([config(3), config(0)], blobs())


def test_other_methods_are_given_no_factors():
    other = Config(method=uw.methods.VAE(), architecture="small_mlp", batch=4)
    assert Engine([other], blobs(), "cpu")._batch().factors is None


@pytest.fixture(scope="module")
def first():
    method = FromFactors(told=PLACES)
    return uw.train(method, blobs(), steps=80, batch=16, latents=2, optimiser=ADAM, **SMALL)


def centres(images):
    """Where images are bright, down and right, `[n, 2]`."""
    weight, at = images[..., 0], np.arange(32)
    total = weight.sum((1, 2))
    return np.stack([(weight.sum(2) @ at) / total, (weight.sum(1) @ at) / total], -1)


def test_images_are_where_their_factors_say(first):
    data = blobs()
    codes = scaled_factors(data, PLACES.split(",")).numpy()
    drawn = centres(first[0].decode(codes))
    for k in range(2):
        assert np.corrcoef(drawn[:, k], codes[:, k])[0, 1] > 0.95


@pytest.mark.parametrize("kind", [MSGAN, CGAN])
def test_second_stages_are_given_the_factors(first, kind):
    seen = []

    class Watched(kind):
        def given(self, first, c):
            seen.append(c)
            return super().given(first, c)

    two = Config(
        method=Watched(), latents=3, batch=4, architecture="small_dcgan", first=first[0].config
    )
    engine = Engine([two], blobs(), "cpu", first.parameters)
    expected = scaled_factors(blobs(), PLACES.split(","))[engine._batch().indices]
    assert torch.equal(seen[0], expected)


def test_what_was_never_read_cannot_be_encoded(first):
    two = uw.train(MSGAN(), blobs(), first=first, steps=1, batch=4, latents=3, **SMALL)
    assert two[0].decode(np.zeros((2, 5), np.float32)).shape == (2, 32, 32, 1)
    for model in (first[0], two[0]):
        with pytest.raises(UnweaveError, match="reads no codes from images"):
            model.encode(blobs().images([0]))


def test_latents_are_as_many_as_factors():
    with pytest.raises(UnweaveError, match="are 2 latents, but got latents=3"):
        Config(method=FromFactors(told=PLACES), latents=3)
    with pytest.raises(UnweaveError, match="say which: told="):
        Config(method=FromFactors(), latents=3)
    with pytest.raises(UnweaveError, match="names with commas"):
        FromFactors(told="posX,,posY")
    for wrong in (None, 3):
        with pytest.raises(UnweaveError, match="told must be text"):
            FromFactors(told=wrong)
