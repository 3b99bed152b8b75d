"""What holds for every pair of generator and discriminator."""

import math

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.adversaries import GROUPS, NETWORKS, judged, three
from tests.methods.second_stages import (
    SmallStages,
    blobs,
    differences,
    first_stage,
    same_alone,
    second_runs,
)
from tests.methods.small_fleet import random
from unweave.errors import UnknownNameError, UnweaveError
from unweave.fleet.engine import Engine
from unweave.methods import GENERATORS, METHODS, SECOND_STAGES, InfoGAN, SecondStage
from unweave.methods.adversarial import discriminator_loss, generator_loss, judgements
from unweave.models.config import Config
from unweave.nets.adam import Adam

every_kind = pytest.mark.parametrize("kind", NETWORKS, ids=lambda kind: kind.name)
CODES = 2


def test_at_chance_both_networks_lose_log_2():
    logits = torch.zeros(3, 5, 1)
    chance = torch.full((3,), math.log(2))
    torch.testing.assert_close(generator_loss(logits), chance)
    torch.testing.assert_close(discriminator_loss(logits, logits), chance)
    assert all((value == 0.5).all() for value in judgements(logits, logits).values())


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


@every_kind
def test_gradients_are_those_of_finite_differences_and_leave_the_first_stage_alone(kind, double):
    stages, methods = SmallStages.make(NETWORKS[kind]), three(kind)
    tracked = stages.tracked()
    losses = tracked.losses(*methods)
    assert list(losses.groups) == list(GROUPS[kind])
    for group, names in GROUPS[kind].items():
        loss = losses.groups[group].sum()
        own = [tracked.parameters[name] for name in names]
        gradients = torch.autograd.grad(loss, own, retain_graph=True)
        for name, gradient in zip(names, gradients, strict=True):
            for column, difference in differences(stages, methods, group, name):
                torch.testing.assert_close(gradient[:, column], difference, rtol=1e-5, atol=1e-8)
        below = torch.autograd.grad(
            loss, list(tracked.first.values()), retain_graph=True, allow_unused=True
        )
        assert below == (None, None)


@every_kind
def test_a_model_has_the_same_losses_alone_and_in_a_fleet(kind, double):
    stages, methods = SmallStages.make(NETWORKS[kind]), three(kind)
    together = stages.losses(*methods)
    for m, method in enumerate(methods):
        alone = stages.alone(m).losses(method)
        for name, value in {**alone.groups, **alone.terms}.items():
            expected = {**together.groups, **together.terms}[name][m : m + 1]
            torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)


def run(kind, seed=0, **settings):
    """A real, small one."""
    if kind.name == "infogan":
        shared = {"batch": 4, "architecture": "small_dcgan"}
        return Config(method=kind(codes=CODES), seed=seed, latents=5, **shared, **settings)
    return second_runs([kind()], [seed], **settings)[0]


def moves(config, steps=1):
    """By how much each group's parameters move."""
    engine = Engine([config], blobs(), "cpu")
    before = {name: group.parameters.clone() for name, group in engine.groups.items()}
    engine.advance(steps)
    return {name: group.parameters - before[name] for name, group in engine.groups.items()}


@every_kind
def test_each_network_group_follows_its_own_loss_only(kind):
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


@every_kind
def test_real_models_are_the_same_alone_and_in_a_fleet(kind):
    same_alone([run(kind, seed) for seed in (3, 0)], blobs())


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
def test_images_are_drawn_by_sigmoids(kind):
    with pytest.raises(UnknownNameError, match="no likelihood is called 'gaussian'"):
        run(kind, likelihood="gaussian")


def test_what_has_no_encoder_is_not_exported(tmp_path):
    pytest.importorskip("onnxruntime")
    with pytest.raises(UnweaveError, match="infogan models are not exported yet"):
        uw.export_onnx(trained(InfoGAN)[0], tmp_path)


def test_every_method_has_one_name():
    kinds = [METHODS, SECOND_STAGES, GENERATORS]
    assert sum(map(len, kinds)) == len(set().union(*kinds))
    for named in kinds:
        assert list(named) == [kind.name for kind in named.values()]
    assert all(issubclass(kind, SecondStage) for kind in SECOND_STAGES.values())
    assert not any(issubclass(kind, SecondStage) for kind in GENERATORS.values())
