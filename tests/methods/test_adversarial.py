"""Tests of all adversarial methods."""

import math

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.second_stages import blobs, first_stage, second_runs
from tests.methods.small_fleet import CODES, judged, random
from tests.raising import about
from unweave.errors import UnknownNameError, UnweaveError
from unweave.fleet.engine import Engine
from unweave.methods import (
    CGAN,
    GENERATORS,
    METHODS,
    MSGAN,
    SECOND_STAGES,
    InfoGAN,
    SecondStage,
)
from unweave.methods.adversarial import (
    discriminator_loss,
    discriminator_probabilities,
    generator_loss,
)
from unweave.models.config import Config
from unweave.nets.adam import Adam

every_kind = pytest.mark.parametrize("kind", [MSGAN, CGAN, InfoGAN], ids=lambda kind: kind.name)


def test_at_chance_both_networks_lose_log_2():
    logits = torch.zeros(3, 5, 1)
    chance = torch.full((3,), math.log(2))
    torch.testing.assert_close(generator_loss(logits), chance)
    torch.testing.assert_close(discriminator_loss(logits, logits), chance)
    assert all(
        (value == 0.5).all() for value in discriminator_probabilities(logits, logits).values()
    )


def test_losses_are_those_of_the_textbook():
    real, fake = random(2, 5, 1, seed=1), random(2, 5, 1, seed=2)
    for m in range(2):
        expected = judged(real[m].flatten().tolist(), fake[m].flatten().tolist())
        assert generator_loss(fake)[m].item() == pytest.approx(expected["model"])
        assert discriminator_loss(real, fake)[m].item() == pytest.approx(expected["discriminator"])


def test_the_generators_loss_does_not_saturate():
    logits = torch.tensor([[[-30.0]]], requires_grad=True)
    generator_loss(logits).backward()
    assert logits.grad.item() == pytest.approx(-1)


def run(kind, seed=0, **settings):
    """A small trained model."""
    if kind.name == "infogan":
        shared = {"batch": 4, "architecture": "small_dcgan"}
        return Config(method=kind(codes=CODES), seed=seed, latents=5, **shared, **settings)
    return second_runs([kind()], [seed], **settings)[0]


def moves(config, steps=1):
    """Return how much the parameters of each group change."""
    engine = Engine([config], blobs(), "cpu")
    before = {name: group.parameters.clone() for name, group in engine.groups.items()}
    engine.advance(steps)
    return {name: group.parameters - before[name] for name, group in engine.groups.items()}


@every_kind
def test_each_network_group_minimises_only_its_own_loss(kind):
    class Still(kind):
        """With a discriminator that never learns."""

        def extra_optimisers(self):
            return {"discriminator": Adam(lr=0.0)}

    both, generator, judge = (
        moves(run(kind)),
        moves(run(Still)),
        moves(run(kind, optimiser=Adam(lr=0.0))),
    )
    assert both["model"].abs().max() > 0
    assert both["discriminator"].abs().max() > 0
    assert torch.equal(generator["model"], both["model"])
    assert torch.equal(judge["discriminator"], both["discriminator"])
    assert (generator["discriminator"] == 0).all()
    assert (judge["model"] == 0).all()
    if issubclass(kind, SecondStage):
        assert (moves(run(kind), steps=2)["first"] == 0).all()


def trained(kind, **settings):
    first = {"first": first_stage()} if issubclass(kind, SecondStage) else {}
    method = kind(codes=CODES) if kind is InfoGAN else kind()
    shared = {"architecture": "small_dcgan", "device": "cpu", "progress": False}
    return uw.train(method, blobs(), steps=2, batch=4, latents=5, **first, **shared, **settings)


@every_kind
def test_images_of_codes_and_codes_of_images_do_not_depend_on_the_batch(kind):
    model, images = trained(kind)[0], blobs().images(range(6))
    codes = random(6, model.config.code_size, seed=3).float().numpy()
    drawn = model.decode(codes)
    assert drawn.std(0).max() > 1e-3
    np.testing.assert_allclose(model.decode(codes[2:4]), drawn[2:4], rtol=1e-4, atol=1e-6)
    mean, logvar = model.encode(images)
    np.testing.assert_allclose(model.encode(images[2:4])[0], mean[2:4], rtol=1e-4, atol=1e-5)
    assert (mean[:, CODES:] == 0).all()
    assert (logvar[:, CODES:] == 0).all()
    assert mean[:, :CODES].std(0).min() > 0
    if issubclass(kind, SecondStage):
        np.testing.assert_array_equal(mean[:, :CODES], model.first.encode(images)[0])


@every_kind
def test_a_saved_model_is_the_same_again(kind, tmp_path):
    model = trained(kind, out=tmp_path)[0]
    again = uw.load(tmp_path / model.config.hash)
    assert again.config == model.config
    codes = random(3, model.config.code_size, seed=3).float().numpy()
    np.testing.assert_array_equal(again.decode(codes), model.decode(codes))
    assert not {"encoder"} & set(model.parameters)


@every_kind
def test_images_are_sigmoids_of_logits(kind):
    with pytest.raises(UnknownNameError, check=about("likelihood", "gaussian")):
        run(kind, likelihood="gaussian")


def test_models_without_encoder_cannot_be_exported(tmp_path):
    pytest.importorskip("onnxruntime")
    with pytest.raises(UnweaveError, check=about("encoder")):
        uw.export_onnx(trained(InfoGAN)[0], tmp_path)


def test_every_method_has_one_name():
    kinds = [METHODS, SECOND_STAGES, GENERATORS]
    assert sum(map(len, kinds)) == len(set().union(*kinds))
    for named in kinds:
        assert list(named) == [kind.name for kind in named.values()]
    assert all(issubclass(kind, SecondStage) for kind in SECOND_STAGES.values())
    assert not any(issubclass(kind, SecondStage) for kind in GENERATORS.values())
