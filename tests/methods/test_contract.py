"""What holds for every method.

On tiny networks for all that learn an encoder and a decoder by themselves, since the networks of
others need real images (`test_adversarial.py`, `test_ms_vae.py`, `test_jacobian.py`); in the
engine for all.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.runs import run_of
from tests.methods.small_fleet import MODELS, NETWORKS, SmallFleet, equal, varied
from unweave.data.catalog import DATASETS
from unweave.fleet.engine import Engine
from unweave.methods import EVERY, ISATCVAE, METHODS, BetaTCVAE, Losses, SlowVAE, VAEEnsemble
from unweave.methods.base import NetworkSpec
from unweave.models.config import Config
from unweave.random import Stream

CASES = {name: (kind, {}) for name, kind in METHODS.items()} | {
    f"beta_tc_vae {estimator}": (BetaTCVAE, {"estimator": estimator})
    for estimator in ("weighted", "stratified")
}
CASES |= {
    f"isa_tc_vae {scale}": (ISATCVAE, {"scale": scale, "exact_entropy": True})
    for scale in ("unit", "reference")
}
CASES |= {"slow_vae consistent": (SlowVAE, {"consistent": True})}
CASES |= {
    f"vae_ensemble {' '.join(map(str, settings.values()))}": (VAEEnsemble, settings)
    for settings in (
        {"objective": "beta_tc_vae", "gamma_steps": 40_000},
        {"objective": "dip_vae_ii", "cross_reconstruction": False},
        {"alignment": False},
    )
}
FIELDS = [(kind, field) for kind in METHODS.values() for field in kind.strengths()]
OF_PRIORS = {"p0": "kl", "p": "kl", "rate": "transition"}
"""What strengths of a prior change besides."""

every_case = pytest.mark.parametrize(("kind", "settings"), CASES.values(), ids=CASES)
every_method = pytest.mark.parametrize("kind", METHODS.values(), ids=METHODS)
every_field = pytest.mark.parametrize(
    ("kind", "field"), FIELDS, ids=[f"{kind.name} {field}" for kind, field in FIELDS]
)


@pytest.fixture
def fleet(double, request):
    """Three models of a method, with their members, their networks and a batch."""
    return SmallFleet.make(request.node.callspec.params["kind"]().num_members)


def networks_of(kind):
    """The names of the networks of each group."""
    groups = kind().networks(NetworkSpec("small_mlp", (4, 4, 1), 3, 0))
    return {group: list(networks) for group, networks in groups.items()}


@every_case
def test_there_is_one_loss_per_group_and_model(fleet, kind, settings):
    losses = fleet.losses(*varied(kind, **settings))
    assert list(losses.groups) == list(networks_of(kind))
    assert set(kind().extra_optimisers()) == set(networks_of(kind)) - {"model"}
    assert ("reconstruction" in losses.terms) == kind.decodes
    assert ("kl" in losses.terms) == (not kind.deterministic)
    for value in (*losses.groups.values(), *losses.terms.values()):
        assert value.shape == (MODELS,)
        assert value.isfinite().all()


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
        equal(unstacked, alone)


@every_case
def test_losses_are_a_function_of_their_inputs(fleet, kind, settings):
    methods = varied(kind, **settings)
    state = torch.random.get_rng_state()
    once = fleet.losses(*methods)
    assert torch.equal(state, torch.random.get_rng_state())
    torch.rand(1)
    equal(once, fleet.losses(*methods))


@every_method
def test_every_step_has_noise_of_its_own(fleet, kind):
    both = [replace(fleet, step=fleet.step + k).losses(*varied(kind)) for k in (0, 2)]
    now, later = (
        one.terms["reconstruction"] if kind.decodes else one.groups["model"] for one in both
    )
    assert (now == later).all() if kind.name == "ae" else (now != later).all()


@every_field
def test_a_models_strength_changes_that_models_loss_only(fleet, kind, field):
    methods = varied(kind)
    before = fleet.losses(*methods)
    methods[1] = replace(methods[1], **{field: 3 * getattr(methods[1], field)})
    after = fleet.losses(*methods)
    changed = before.groups["model"] != after.groups["model"]
    assert changed.tolist() == [False, True, False]
    equal(others_of(before, field), others_of(after, field))


def others_of(losses, field):
    """All but the loss of the group "model", on which alone strengths act; but for priors."""
    groups = {name: loss for name, loss in losses.groups.items() if name != "model"}
    terms = {name: term for name, term in losses.terms.items() if name != OF_PRIORS.get(field)}
    return Losses(groups, terms)


def with_gradients(fleet):
    parameters = {name: p.clone().requires_grad_() for name, p in fleet.parameters.items()}
    return replace(fleet, parameters=parameters)


@every_case
def test_gradients_are_those_of_finite_differences(fleet, kind, settings):
    methods, width = varied(kind, **settings), 1e-5
    tracked = with_gradients(fleet)
    losses = tracked.losses(*methods)
    for group, names in networks_of(kind).items():
        buffers = [tracked.parameters[name] for name in names]
        gradients = torch.autograd.grad(losses.groups[group].sum(), buffers, retain_graph=True)
        for name, gradient in zip(names, gradients, strict=True):
            size = len(NETWORKS[name])
            for column in (0, size // 3, size // 2, size - 4, size - 1):
                sides = []
                for step in (width, -width):
                    moved = fleet.parameters[name].clone()
                    moved[:, column] += step
                    elsewhere = replace(fleet, parameters={**fleet.parameters, name: moved})
                    sides.append(elsewhere.losses(*methods).groups[group])
                difference = (sides[0] - sides[1]) / (2 * width)
                torch.testing.assert_close(gradient[:, column], difference, rtol=1e-5, atol=1e-5)


@every_case
def test_no_model_feels_the_loss_of_another(fleet, kind, settings):
    tracked = with_gradients(fleet)
    losses = tracked.losses(*varied(kind, **settings))
    for group, names in networks_of(kind).items():
        buffers = [tracked.parameters[name] for name in names]
        for gradient in torch.autograd.grad(losses.groups[group][1], buffers, retain_graph=True):
            assert (gradient[[0, 2]] == 0).all()
            assert (gradient[1] != 0).any()


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


@pytest.mark.parametrize("images", [own_images, sprites])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", EVERY.values(), ids=EVERY)
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
def test_a_real_model_has_the_same_losses_alone_and_in_a_fleet(kind, settings):
    runs = [
        Config(method=method, seed=seed, batch=4, latents=5)
        for method, seed in zip(varied(kind, **settings), SEEDS, strict=True)
    ]
    same_alone(runs, sprites(1))


@pytest.mark.parametrize("name", sorted({*EVERY} - {*METHODS}))
def test_models_of_stages_and_generators_have_the_same_losses_alone_and_in_a_fleet(name):
    data = own_images(1)
    runs = [
        run_of(EVERY[name], data, seed, strength)
        for seed, strength in zip(SEEDS, (0.5, 1.0, 2.0), strict=True)
    ]
    same_alone(runs, data)


SEEDS = (3, 0, 2**35)


def same_alone(runs, data):
    together, _ = first_step(runs, data)
    for m, run in enumerate(runs):
        alone, _ = first_step([run], data)
        torch.testing.assert_close(together[:, m], alone[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", EVERY.values(), ids=EVERY)
def test_a_run_is_the_same_after_being_written_down(kind):
    run = run_of(kind, own_images(1), seed=3, strength=2)
    again = Config.from_dict(json.loads(json.dumps(run.to_dict())))
    assert again == run
    assert again.hash == run.hash
    assert again.fleet == run_of(kind, own_images(1), seed=4, strength=3).fleet


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
    assert len({config.fleet for config in configs}) == 7 * 6
    config = configs[0]
    assert (config.batch, config.steps, config.latents) == (64, 300_000, 10)
    assert (config.optimiser.lr, config.optimiser.beta1, config.optimiser.beta2) == (
        1e-4,
        0.9,
        0.999,
    )
