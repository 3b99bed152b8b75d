"""Fleets of several methods: each model is the one that its method trains alone."""

import numpy as np
import pandas as pd
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet import checkpoint, train
from unweave.fleet.diagnostics import curve_columns
from unweave.fleet.engine import Engine
from unweave.methods import (
    AE,
    DIPVAEI,
    ISAVAE,
    MSVAE,
    QLAE,
    VAE,
    AdaGVAE,
    AnnealedVAE,
    BetaTCVAE,
    BetaVAE,
    FactorVAE,
    SlowVAE,
    Tripod,
    VAEEnsemble,
)
from unweave.methods.mixins import REPRESENTATIONS
from unweave.models.config import Config, group_into_fleets
from unweave.models.model import load as load_model
from unweave.nets.adam import Adam

SETTINGS = {"batch": 6, "latents": 4, "architecture": "small_mlp", "steps": 4}
SEVERAL = (BetaVAE(beta=4), FactorVAE(gamma=2, width=50), AE(), ISAVAE(learned=True), AdaGVAE())
OTHERS = (VAE(), BetaTCVAE(), DIPVAEI(), AnnealedVAE(), SlowVAE())
QUANTISED = (QLAE(values=4), BetaVAE(), Tripod(values=5))
ENSEMBLES = (VAEEnsemble(members=2), VAEEnsemble(members=2, cross_reconstruction=False))


def runs(methods=SEVERAL, seeds=(3, 0), **settings):
    return [
        Config(method=method, seed=seed, **{**SETTINGS, **settings})
        for method in methods
        for seed in seeds
    ]


@pytest.fixture(scope="module")
def several(sprites):
    """A trained fleet of several methods."""
    return train.train_runs(runs(), sprites, progress=False)


def alone(config, data):
    return train.train_runs([config], data, progress=False)[0]


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def weights(engine, part):
    return {name: buffer for name, _, buffer in engine.networks(part)}


def test_each_model_is_the_one_trained_alone(several, sprites):
    assert len(several) == 10
    for model, config in zip(several, runs(), strict=True):
        expected = alone(config, sprites)
        assert model.config == expected.config == config
        assert equal(model.parameters, expected.parameters)
        curves = (each.curve.reset_index(drop=True) for each in (model, expected))
        pd.testing.assert_frame_equal(*curves)


@pytest.mark.parametrize(
    "methods", [OTHERS, ENSEMBLES, QUANTISED], ids=["single", "ensembles", "quantised"]
)
def test_one_step_of_the_whole_fleet_is_that_of_its_parts(methods, sprites):
    # As on a GPU: shared networks are computed for all parts at once.
    settings = {"architecture": "conv4x4", "optimiser": Adam(eps=1e-3)}
    configs = runs(methods, **settings)
    mixed = Engine(configs, sprites, "cpu")
    assert len(mixed.parts) == len(methods)
    mixed._runner.run(mixed._step, 2)
    means = mixed.fetch()
    for part in mixed.parts:
        own = Engine(part.configs, sprites, "cpu")
        own._runner.run(own._step, 2)
        for name, buffer in weights(own, own.parts[0]).items():
            torch.testing.assert_close(weights(mixed, part)[name], buffer, rtol=0, atol=1e-6)
        rows = [mixed.terms.index(name) for name in own.terms]
        torch.testing.assert_close(means[rows, part.models], own.fetch(), rtol=1e-5, atol=1e-4)
        missing = [place for place in range(len(mixed.terms)) if place not in rows]
        assert means[missing, part.models].isnan().all()


def test_style_networks_train_in_fleets(sprites):
    """Stride-1 convolutions of several models are one grouped convolution."""
    settings = {"architecture": "style_conv", "optimiser": Adam(eps=1e-3), "batch": 2}
    configs = runs([QLAE(), AE()], seeds=[0], **settings)
    mixed = Engine(configs, sprites, "cpu")
    mixed._runner.run(mixed._step, 1)
    for part in mixed.parts:
        own = Engine(part.configs, sprites, "cpu")
        own.advance(1)
        for name, buffer in weights(own, own.parts[0]).items():
            torch.testing.assert_close(weights(mixed, part)[name], buffer, rtol=0, atol=5e-6)


def test_a_diverged_model_stops_alone(sprites):
    configs = [
        *runs([FactorVAE(width=50)], seeds=[0], optimiser=Adam(lr=1e30)),
        *runs([BetaVAE(), FactorVAE(width=50)], seeds=[1]),
    ]
    mixed = Engine(configs, sprites, "cpu")
    mixed._runner.run(mixed._step, 4)
    found = {config: bool(alive) for config, alive in zip(mixed.configs, mixed.alive, strict=True)}
    assert [found[config] for config in configs] == [False, True, True]


def test_parts_resume_in_any_combination(several, sprites, tmp_path):
    def stop_early(_):
        return True

    with pytest.raises(InterruptedTrainingError):
        train.train_runs(runs(), sprites, out=tmp_path, progress=False, on_progress=stop_early)
    (path,) = checkpoint.checkpoints(tmp_path)
    trained = dict(zip(runs(), several, strict=True))
    for methods in (SEVERAL, SEVERAL[1:2], SEVERAL[3:1:-1]):
        wanted = runs(methods, seeds=[0])
        engine = Engine(wanted, sprites, "cpu")
        curve = checkpoint.restore(engine, path)
        assert int(engine.step) == 1
        assert curve.shape == (0, len(curve_columns(engine)), len(wanted))
        engine.advance(3)
        for part in engine.parts:
            for place, config in enumerate(part.configs):
                found = {name: value[place] for name, value in weights(engine, part).items()}
                assert equal(found, {n: v[0] for n, v in trained[config].parameters.items()})
    resumed = train.train_runs(runs(), sprites, out=tmp_path, progress=False)
    for one, other in zip(resumed, several, strict=True):
        assert equal(one.parameters, other.parameters)
    for config in runs(SEVERAL[1:2]):  # the files are those of a run alone
        folder = alone(config, sprites).save(tmp_path / "alone" / config.hash)
        for name in ("config.json", "weights.safetensors", "curve.parquet"):
            assert (tmp_path / config.hash / name).read_bytes() == (folder / name).read_bytes()


def test_quantised_methods_resume_and_encode_as_they_do_alone(sprites, tmp_path):
    wanted = runs(QUANTISED, seeds=[2])
    with pytest.raises(InterruptedTrainingError):
        train.train_runs(wanted, sprites, out=tmp_path, progress=False, on_progress=lambda _: True)
    for model in train.train_runs(wanted, sprites, out=tmp_path, progress=False):
        expected = alone(model.config, sprites)
        assert equal(model.parameters, expected.parameters)
        kinds = ["value"] if model.config.method.name == "beta_vae" else REPRESENTATIONS
        for kind in kinds:
            codes = load_model(tmp_path / model.config.hash).encode(sprites, representation=kind)
            expected_codes = expected.encode(sprites, representation=kind)
            assert all(map(np.array_equal, codes, expected_codes))


def test_ensembles_resume_with_their_maps(sprites, tmp_path):
    configs = runs(ENSEMBLES, seeds=[2])
    mixed, fresh = Engine(configs, sprites, "cpu"), Engine(configs[:1], sprites, "cpu")
    assert mixed.groups.keys() == {"model", "0/model", "1/model"}
    mixed.advance(2)
    path = tmp_path / ".fleet-mixed.safetensors"
    checkpoint.save(mixed, torch.empty(0, len(curve_columns(mixed)), 2), path)
    checkpoint.restore(fresh, path)
    for engine in (mixed, fresh):
        engine.advance(1)
    (part,) = (part for part in mixed.parts if part.configs == configs[:1])
    assert equal(weights(mixed, part), weights(fresh, fresh.parts[0]))


@pytest.mark.parametrize("sizes", [[0, 10], [4, 4], [2, 2, 2, 2, 3], ["2", 8], 10, []])
def test_checkpoints_with_invalid_parts_are_damaged(sizes, sprites, tmp_path):
    engine = Engine(runs(), sprites, "cpu")
    path = tmp_path / ".fleet-mixed.safetensors"
    facts = {"runs": [config.hash for config in engine.configs], "parts": sizes}
    checkpoint.generations.save(path, {"0/step": engine.step}, facts)
    with pytest.raises(checkpoint.DamagedCheckpointError, check=about(None)):
        checkpoint.restore(engine, path)


def test_a_fleet_encodes_and_decodes_as_its_models(several, sprites):
    images = sprites[:7]
    means, logvars = several.encode(images)
    decoded, own = several.decode(means), several.decode(means[0])
    assert decoded.shape == own.shape == (10, 7, 32, 32, 1)
    for place, model in enumerate(several):
        mean, logvar = model.encode(images)
        torch.testing.assert_close(means[place], mean, rtol=0, atol=1e-6)
        torch.testing.assert_close(logvars[place], logvar, rtol=0, atol=1e-6)
        torch.testing.assert_close(decoded[place], model.decode(mean), rtol=0, atol=1e-6)


def test_models_are_saved_whole(several, sprites, tmp_path):
    folders = several.save(tmp_path)
    for folder, config in zip(folders, runs(), strict=True):
        assert equal(load_model(folder).parameters, alone(config, sprites).parameters)
    factor_vae = load_model(folders[2])
    assert factor_vae.parameters.keys() == {"encoder", "decoder", "discriminator"}


def test_methods_are_given_as_a_list(sprites):
    methods = [BetaVAE(beta=[1, 4]), "factor_vae", VAE]
    fleet = uw.train(methods, sprites, seeds=2, progress=False, **SETTINGS)
    names = [config.method.name for config in fleet.configs]
    assert names == ["beta_vae"] * 4 + ["factor_vae"] * 2 + ["vae"] * 2
    assert [config.seed for config in fleet.configs] == [0, 1] * 4
    with pytest.raises(UnweaveError, check=about("runs")):
        uw.train(["vae", VAE()], sprites, progress=False, **SETTINGS)
    with pytest.raises(UnweaveError, check=about("seeds")):
        uw.train([], sprites, progress=False, **SETTINGS)


def test_what_may_share_a_fleet():
    def fleets(*configs):
        return [len(fleet) for fleet in group_into_fleets(configs)]

    base = Config(method=VAE())
    assert fleets(base, Config(method=FactorVAE()), Config(method=BetaVAE(), seed=4)) == [3]
    assert fleets(base, Config(method=AE(), latents=3), Config(method=AE(), batch=3)) == [1, 1, 1]
    assert fleets(base, Config(method=VAEEnsemble()), Config(method=MSVAE(), first=base)) == [
        1,
        1,
        1,
    ]
    clipped = Adam(clip_norm=1.0)
    configs = [Config(method=method, optimiser=clipped) for method in (VAE(), BetaVAE())]
    assert fleets(*configs, base) == [3]
    # The maps of an ensemble are part of the norm of its gradient.
    ensembles = [Config(method=method, optimiser=clipped) for method in ENSEMBLES]
    assert fleets(*ensembles) == [1, 1]
