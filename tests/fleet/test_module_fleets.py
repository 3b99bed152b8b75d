"""Fleets of torch modules and of images of any size, with every method."""

from functools import partial

import numpy as np
import pytest
import torch

import unweave as uw
from tests.nets.module_architectures import TINY, TinyDecoder
from tests.raising import about
from unweave.errors import UnknownNameError, UnweaveError
from unweave.fleet.engine import Engine
from unweave.methods import EVERY, METHODS, VAE, BetaVAE
from unweave.models.config import Config
from unweave.nets.adam import Adam
from unweave.nets.architectures import ARCHITECTURES, Architecture, discriminator

NAME = "tests.nets.module_architectures:TINY"
SMALLER = {"vae_ensemble": {"members": 2}}
SETTINGS = {"architecture": TINY, "steps": 2, "batch": 5, "latents": 3, "progress": False}


@pytest.fixture(scope="module")
def squares():
    """A grid of 4 × 4 positions of a square, 16 × 16 pixels in two colours."""
    images = np.zeros((4, 4, 16, 16, 2), np.uint8)
    for row in range(4):
        for column in range(4):
            images[row, column, 3 * row : 3 * row + 5, 3 * column : 3 * column + 5, 0] = 255
            images[row, column, ..., 1] = 16 * row
    places = np.indices((4, 4)).reshape(2, -1)
    factors = {"row": places[0], "column": places[1]}
    return uw.data.load(images.reshape(16, 16, 16, 2), factors=factors, name="squares")


@pytest.fixture
def set_threads():
    """Set the number of threads; restored at the end."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def run_of(kind, seed, **settings):
    values = {**dict.fromkeys(kind.strengths()[:1], 1.0 + seed), **SMALLER.get(kind.name, {})}
    defaults = {"architecture": TINY, "batch": 5, "latents": 3, "steps": 2}
    return Config(method=kind(**values), seed=seed, **{**defaults, **settings})


def weights(engine, place):
    parts = [
        group.parameters.unflatten(0, (-1, group.rows_per_model))
        for group in engine.groups.values()
    ]
    return torch.cat([part[place].flatten() for part in parts])


def trained(configs, data, steps=2):
    engine = Engine(configs, data, "cpu")
    engine.advance(steps)
    return engine


@pytest.mark.parametrize("name", [name for name in METHODS if name != "tripod"])
def test_every_method_trains_modules_alike_in_any_fleet(name, squares, set_threads, monkeypatch):
    small = partial(discriminator, hidden=1)
    monkeypatch.setattr("unweave.methods.factor_vae.discriminator", small)
    runs = [run_of(METHODS[name], seed) for seed in (1, 0)]
    set_threads(1)
    alone = Engine(runs[1:], squares, "cpu")
    start = weights(alone, 0).clone()
    alone.advance(2)
    set_threads(2)
    fleet = trained(runs, squares)
    assert torch.equal(weights(fleet, 1), weights(alone, 0))
    assert fleet.alive.all()
    assert not torch.equal(weights(alone, 0), start)
    assert torch.equal(fleet.fetch()[:, 1], alone.fetch()[:, 0])


def test_methods_that_use_hidden_layers_reject_modules(squares):
    with pytest.raises(UnweaveError, check=about("architecture", None)):
        Engine([run_of(METHODS["tripod"], 0)], squares, "cpu")


OTHERS = [name for name, kind in EVERY.items() if not set(ARCHITECTURES) <= {*kind.architectures}]


@pytest.mark.parametrize("name", OTHERS)
def test_methods_with_networks_of_their_own_reject_modules(name):
    kind = EVERY[name]
    values = {"known_factors": "row"} if name == "from_factors" else {}
    first = Config(method=VAE()) if issubclass(kind, uw.methods.SecondStage) else None
    with pytest.raises(UnknownNameError, check=about("architecture", NAME)):
        Config(method=kind(**values), architecture=TINY, first=first)


def test_training_is_that_of_a_plain_loop_with_torchs_adam(squares):
    config = run_of(BetaVAE, 3, optimiser=Adam(lr=1e-2), steps=6)
    engine = Engine([config], squares, "cpu")
    group = engine.groups["model"]
    encoder, decoder = (
        group.networks[name].with_parameters(part.clone())
        for name, part in group.buffers(group.parameters)
    )
    optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    before, found = [*encoder.parameters()][1].detach().clone(), []
    for _ in range(config.steps):
        (batch,) = engine._batches()
        images = batch.images[0].permute(0, 3, 1, 2).float() / 255
        mean, logvar = encoder(images).chunk(2, 1)
        codes = mean + (logvar / 2).exp() * batch.noise("posterior", mean[None])[0]
        likelihood = torch.nn.functional.binary_cross_entropy_with_logits(
            decoder(codes), images, reduction="sum"
        )
        kl = 0.5 * (mean**2 + logvar.exp() - 1 - logvar).sum()
        loss = (likelihood + 4.0 * kl) / len(images)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        engine.advance(1)
        found.append((float(engine.fetch()[0, 0]), float(loss.detach())))
    assert not torch.allclose([*encoder.parameters()][1], before)
    ours, theirs = np.transpose(found)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    for module, (name, part) in zip(
        (encoder, decoder), group.buffers(group.parameters), strict=True
    ):
        own = dict(group.networks[name].named(part))
        for key, parameter in module.named_parameters():
            if parameter.requires_grad:
                ours = own[key].view_as(parameter)
                torch.testing.assert_close(ours, parameter, atol=1e-5, rtol=0)


def test_saved_models_are_found_by_the_name_of_their_architecture(squares, tmp_path):
    fleet = uw.train(
        BetaVAE(beta=[1, 4]), squares, steps=2, batch=4, architecture=TINY, progress=False
    )
    assert fleet[0].config.architecture == NAME
    model = uw.load(fleet[1].save(tmp_path / "model"))
    for ours, theirs in zip(model.encode(squares), fleet[1].encode(squares), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    codes = model.encode(squares)[0]
    np.testing.assert_array_equal(model.decode(codes), fleet[1].decode(codes))
    assert model.decode(codes).shape == (16, 16, 16, 2)
    table = uw.evaluate(fleet, squares, metrics=["mig"], progress=False)
    assert len(table) == 2


def test_a_resumed_run_of_modules_has_the_same_weights(squares, tmp_path):
    settings = {"architecture": TINY, "steps": 4, "batch": 4, "progress": False}
    whole = uw.train(VAE(), squares, **settings)
    stop = iter([False, True])
    with pytest.raises(UnweaveError):
        uw.train(VAE(), squares, **settings, out=tmp_path, on_progress=lambda _: next(stop))
    resumed = uw.train(VAE(), squares, **settings, out=tmp_path)
    for name, buffer in whole.parameters.items():
        assert torch.equal(resumed.parameters[name], buffer)


def wrong_decoder(shape, latents):
    height, width, _ = shape
    return TinyDecoder((width, height, 1), latents)


WRONG = Architecture(TINY.encoder, wrong_decoder)


def test_outputs_of_the_wrong_shape_are_an_error_before_training(squares):
    with pytest.raises(UnweaveError, check=about("architecture", [2, 1, 16, 16])):
        uw.train(VAE(), squares, steps=2, architecture=WRONG, progress=False)


@pytest.mark.parametrize("shape", [(16, 16, 1), (28, 28, 1), (48, 80, 3), (100, 60, 5)])
@pytest.mark.parametrize("architecture", ["conv", "conv4x4", "residual"])
def test_images_of_other_sizes_train(architecture, shape):
    images = np.random.default_rng(0).random((6, *shape)).astype(np.float16)
    data = uw.data.load(images)
    assert data.shape == shape
    configs = [run_of(BetaVAE, seed, architecture=architecture, batch=3) for seed in (0, 1)]
    fleet, alone = trained(configs, data), trained(configs[1:], data)
    assert torch.equal(weights(fleet, 1), weights(alone, 0))
    assert fleet.alive.all()


def test_methods_share_a_fleet_of_modules(squares):
    runs = [run_of(METHODS[name], 2) for name in ("dip_vae_i", "vae")]
    together = uw.train([run.method for run in runs], squares, **SETTINGS)
    for place, run in enumerate(runs):
        alone = uw.train(run.method, squares, **SETTINGS)
        for name in ("encoder", "decoder"):
            assert torch.equal(together.parameters[name][place], alone.parameters[name][0])
