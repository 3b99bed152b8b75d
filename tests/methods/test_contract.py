"""What holds for every method: those that learn codes, second stages and generators.

Every method of `EVERY` is covered as soon as it is there, on tiny networks in float64 and in the
engine. What does not apply to a method is in `NOT_APPLICABLE`, with the reason. Its textbook is
the function `textbook(fleet, m, method)` of its own test, in plain loops: losses and terms of one
model.
"""

import json
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.runs import run_of
from tests.methods.small_fleet import MODELS, SMALLER, SmallFleet, equal, groups_of, same, varied
from unweave.data.catalog import DATASETS
from unweave.fleet.engine import Engine
from unweave.methods import (
    EVERY,
    HFS,
    ISATCVAE,
    METHODS,
    MSGAN,
    BetaTCVAE,
    BioAE,
    JacobianL1,
    Losses,
    SlowVAE,
    Tripod,
    VAEEnsemble,
)
from unweave.models.config import Config
from unweave.random import Stream

CASES = {name: (kind, {}) for name, kind in EVERY.items()} | {
    f"beta_tc_vae {estimator}": (BetaTCVAE, {"estimator": estimator})
    for estimator in ("weighted", "stratified")
}
CASES |= {
    f"isa_tc_vae {scale}": (ISATCVAE, {"scale": scale, "exact_entropy": True})
    for scale in ("unit", "reference")
}
CASES |= {"bio_ae means": (BioAE, {"sums": False, "lambda_w": 0.0})}
CASES |= {
    f"{kind.name} {host}": (kind, {"host": host})
    for kind, host in ((HFS, "factor_vae gamma=3"), (JacobianL1, "beta_tc_vae=4"))
}
CASES |= {"slow_vae consistent": (SlowVAE, {"consistent": True})}
CASES |= {
    f"tripod {' '.join(settings)}": (Tripod, settings)
    for settings in ({"quantise": False}, {"quantise": False, "pooled": True, "directions": 3})
}
CASES |= {
    f"vae_ensemble {' '.join(map(str, settings.values()))}": (VAEEnsemble, settings)
    for settings in (
        {"objective": "beta_tc_vae", "gamma_steps": 40_000},
        {"objective": "dip_vae_ii", "cross_reconstruction": False},
        {"alignment": False},
    )
}
FIELDS = [(kind, field) for kind in EVERY.values() for field in kind.strengths()]
BY_A_JUDGE = "images are judged by a discriminator"
SQUARES = "images are compared by squared errors"
NOT_APPLICABLE = {
    "reconstruction": {
        "pcl": "there is no decoder",
        "ms_gan": BY_A_JUDGE,
        "cgan": BY_A_JUDGE,
        "infogan": BY_A_JUDGE,
        "jacobian": SQUARES,
        "from_factors": SQUARES,
    },
    "kl": {
        **dict.fromkeys(
            ("ae", "bio_ae", "qlae", "tripod"), "codes have neither noise nor a prior"
        ),
        "pcl": "codes have neither noise nor a prior",
        "jacobian": "codes have neither noise nor a prior",
        "ms_gan": "codes are drawn from the prior",
        "cgan": "codes are drawn from the prior",
        "infogan": "codes are drawn from the prior",
        "from_factors": "codes are given",
    },
    "noise": {
        **dict.fromkeys(("ae", "bio_ae", "qlae"), "images are reconstructed from means"),
        "from_factors": "codes are given",
    },
    "textbook": {},
    "finite differences": dict.fromkeys(
        ("qlae", "tripod"), "gradients pass straight through the quantiser"
    )
    | {"dava": "its discriminator trains the encoder and the decoder separately"},
}
"""Tests that do not apply to a method, by name, with the reason."""
ALSO_CHANGES = {
    "p0": "kl",
    "p": "kl",
    "rate": "transition",
    "lambda_info": "discriminator",
    "lambda_q": "codebook",
    "c_max": "capacity",
    "threshold": "capacity",
}
"""Losses and terms that a strength affects in addition to the loss of the group "model"."""

every_case = pytest.mark.parametrize(("kind", "settings"), CASES.values(), ids=CASES)
every_method = pytest.mark.parametrize("kind", EVERY.values(), ids=EVERY)
every_field = pytest.mark.parametrize(
    ("kind", "field"), FIELDS, ids=[f"{kind.name} {field}" for kind, field in FIELDS]
)


def applies(what, kind):
    return kind.name not in NOT_APPLICABLE[what]


def method_of(kind, settings=()):
    return kind(**{**SMALLER.get(kind.name, {}), **dict(settings)})


@pytest.fixture
def fleet(double, request):
    """Three models of a method, with their members, their networks and a batch."""
    parameters = request.node.callspec.params
    return SmallFleet.of(method_of(parameters["kind"], parameters.get("settings", {})))


def test_exceptions_refer_to_existing_methods():
    assert set().union(*NOT_APPLICABLE.values()) <= set(EVERY)


def test_methods_without_tiny_networks_use_their_own(double):
    class Other(MSGAN):
        name = "other"

    fleet = SmallFleet.of(Other())
    assert fleet.images.shape == (MODELS, 5, 32, 32, 1)
    assert fleet.losses(*[Other()] * MODELS).groups["model"].isfinite().all()


@every_case
def test_there_is_one_loss_per_group_and_model(fleet, kind, settings):
    method = method_of(kind, settings)
    losses, groups = fleet.losses(*varied(kind, **settings)), groups_of(method)
    assert list(losses.groups) == list(groups)
    assert set(method.extra_optimisers()) == set(groups) - {"model"}
    for term in ("reconstruction", "kl"):
        assert (term in losses.terms) == applies(term, kind)
    for value in (*losses.groups.values(), *losses.terms.values()):
        assert value.shape == (MODELS,)
        assert value.isfinite().all()


@every_case
def test_losses_are_those_of_the_textbook(fleet, kind, settings):
    if not applies("textbook", kind):
        return
    module = import_module(f"tests.methods.test_{kind.__module__.rpartition('.')[2]}")
    methods = varied(kind, **settings)
    expected = [module.textbook(fleet, m, method) for m, method in enumerate(methods)]
    same(fleet.losses(*methods), expected, rtol=1e-6)  # strengths are float32


@every_case
def test_a_model_has_the_same_losses_alone_and_in_a_fleet(fleet, kind, settings):
    methods = varied(kind, **settings)
    together = fleet.losses(*methods)
    for m, method in enumerate(methods):
        alone = fleet.alone(m).losses(method)
        part = Losses(
            {name: value[m : m + 1] for name, value in together.groups.items()},
            {name: value[m : m + 1] for name, value in together.terms.items()},
        )
        equal(part, alone)
        unstacked = method.losses(fleet.alone(m).nets(), fleet.alone(m).batch())
        equal(unstacked, alone, rtol=1e-7)  # its strengths are not float32


@every_case
def test_losses_are_a_function_of_their_inputs(fleet, kind, settings):
    methods = varied(kind, **settings)
    state = torch.random.get_rng_state()
    once = fleet.losses(*methods)
    assert torch.equal(state, torch.random.get_rng_state())
    torch.rand(1)
    equal(once, fleet.losses(*methods))


@every_method
def test_noise_differs_between_steps(fleet, kind):
    now, later = (
        replace(fleet, step=fleet.step + k).losses(*varied(kind)).groups["model"] for k in (0, 2)
    )
    assert (now != later).all() if applies("noise", kind) else (now == later).all()


@every_field
def test_a_models_strength_changes_that_models_loss_only(fleet, kind, field):
    methods = varied(kind)
    before = fleet.losses(*methods)
    methods[1] = replace(methods[1], **{field: 3 * getattr(methods[1], field)})
    after = fleet.losses(*methods)
    values = [{**losses.groups, **losses.terms} for losses in (before, after)]
    for name, value in values[0].items():
        changed = (value != values[1][name]).tolist()
        if name == "model":
            assert changed == [False, True, False]
        else:
            assert changed == [False, name == ALSO_CHANGES.get(field), False]


@every_case
def test_gradients_are_those_of_finite_differences(fleet, kind, settings):
    if settings.get("quantise", not applies("finite differences", kind)):
        return
    methods, width = varied(kind, **settings), 1e-5
    tracked = fleet.tracked()
    losses = tracked.losses(*methods)
    for group, networks in groups_of(method_of(kind, settings)).items():
        buffers = [tracked.parameters[name] for name in networks]
        loss = losses.groups[group].sum()
        gradients = torch.autograd.grad(loss, buffers, retain_graph=True)
        for (name, network), gradient in zip(networks.items(), gradients, strict=True):
            assert gradient.isfinite().all()
            size = len(network)
            for column in {0, size // 3, size // 2, max(size - 4, 0), size - 1}:
                sides = []
                for step in (width, -width):
                    moved = fleet.parameters[name].clone()
                    moved[:, column] += step
                    elsewhere = replace(fleet, parameters={**fleet.parameters, name: moved})
                    sides.append(elsewhere.losses(*methods).groups[group])
                difference = (sides[0] - sides[1]) / (2 * width)
                torch.testing.assert_close(gradient[:, column], difference, rtol=1e-5, atol=1e-5)


@every_case
def test_no_model_feels_the_loss_of_another_and_a_first_stage_stays_as_it_is(
    fleet, kind, settings
):
    tracked = fleet.tracked()
    losses = tracked.losses(*varied(kind, **settings))
    for group, networks in groups_of(method_of(kind, settings)).items():
        buffers = [tracked.parameters[name] for name in networks]
        loss = losses.groups[group][1]
        for gradient in torch.autograd.grad(loss, buffers, retain_graph=True):
            assert (gradient[[0, 2]] == 0).all()
            assert (gradient[1] != 0).any()
        below = list(tracked.first.values())
        first = torch.autograd.grad(loss, below, retain_graph=True, allow_unused=True)
        assert first == (None, None)


def own_images(channels):
    """A whole grid of 3 × 4 factors, 32 pixels wide."""
    pixels = Stream(0, "test").integers(256, 12, 32 * 32 * channels).byte()
    factors = np.stack(np.meshgrid(range(3), range(4), indexing="ij"), -1).reshape(12, 2)
    return uw.data.load(pixels.reshape(12, 32, 32, channels).numpy(), factors=factors)


def sprites(channels):
    """Hearts of one size, upright, at 8 × 8 places, 64 pixels wide."""
    data = uw.data.load("dsprites" if channels == 1 else "color-dsprites")
    few = range(0, 32, 4)
    return data.slice(shape=2, scale=5, orientation=0, posX=few, posY=few)


def first_step(configs, data):
    """The losses and terms `[terms, M]` of freshly initialised models."""
    engine = Engine(configs, data, "cpu")
    engine.advance(1)
    return engine.fetch(), engine


@pytest.mark.parametrize(("images", "channels"), [(own_images, 3), (sprites, 1)])
@every_method
def test_losses_and_gradients_are_finite_at_initialisation(kind, images, channels):
    data = images(channels)
    assert data.shape[2] == channels
    losses, engine = first_step([run_of(kind, data)], data)
    assert losses.isfinite().all()
    assert engine.alive.all()
    for name, group in engine.groups.items():
        assert group.parameters.isfinite().all()
        assert (group.moments.first != 0).any() == (name != "first")
    if "reconstruction" not in engine.terms:
        return
    reconstruction = losses[engine.terms.index("reconstruction")]
    pixels = np.prod(data.shape)
    assert 0.5 * np.log(2) * pixels < reconstruction.item() < 2 * np.log(2) * pixels


@every_case
def test_a_real_model_is_the_same_alone_and_in_a_fleet_to_the_bit(kind, settings):
    data, strengths = own_images(1), zip((3, 0, 2**35), (0.5, 1.0, 2.0), strict=True)
    runs = [run_of(kind, data, seed, strength, settings) for seed, strength in strengths]
    m = len(kind.name) % len(runs)  # another place of the fleet for other methods
    together, alone = trained(runs, data), trained(runs[m : m + 1], data)
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        assert torch.equal(value[0], together[name][m]), name


def trained(runs, data):
    """Losses and terms, weights and moments after two steps, a row for each model."""
    engine = Engine(runs, data, "cpu")
    engine.advance(2)
    found = {"losses": engine.fetch().T}
    for name, group in engine.groups.items():
        for part in (group.parameters, group.moments.first, group.moments.second):
            found[f"{name} {len(found)}"] = part.unflatten(0, (len(runs), -1))
    return found


@every_method
def test_a_run_is_the_same_after_being_written_down(kind):
    run = run_of(kind, own_images(1), seed=3, strength=2)
    again = Config.from_dict(json.loads(json.dumps(run.to_dict())))
    assert again == run
    assert again.hash == run.hash
    assert again.kind == run_of(kind, own_images(1), seed=4, strength=3).kind


STUDY = {  # Locatello et al., arXiv:1811.12359: what is swept
    "beta_vae": {"beta": [1, 2, 4, 6, 8, 16]},
    "factor_vae": {"gamma": [10, 20, 30, 40, 50, 100]},
    "dip_vae_i": {"lambda_od": [1, 2, 5, 10, 20, 50]},
    "dip_vae_ii": {"lambda_od": [1, 2, 5, 10, 20, 50]},
    "beta_tc_vae": {"beta": [1, 2, 4, 6, 8, 10]},
    "annealed_vae": {"c_max": [5, 10, 25, 50, 75, 100]},
}
STUDY_DATA = (
    "dsprites",
    "color_dsprites",
    "noisy_dsprites",
    "scream_dsprites",
    "smallnorb",
    "cars3d",
    "shapes3d",
)


def test_the_published_study_has_12_600_different_runs():
    configs = [
        Config(method=method, data=(["load", data, {}],), seed=seed)
        for data in STUDY_DATA
        for name, values in STUDY.items()
        for method in METHODS[name](**values).grid()
        for seed in range(50)
    ]
    assert set(STUDY_DATA) <= set(DATASETS)
    assert len(configs) == 7 * 6 * 6 * 50 == 12_600
    assert len({config.hash for config in configs}) == 12_600
    assert len({config.kind for config in configs}) == 7 * 6
    config = configs[0]
    assert (config.batch, config.steps, config.latents) == (64, 300_000, 10)
    assert (config.optimiser.lr, config.optimiser.beta1, config.optimiser.beta2) == (
        1e-4,
        0.9,
        0.999,
    )
