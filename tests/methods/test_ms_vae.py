"""Second stages: the objective, the frozen first stage, chains of stages, and errors."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import unweave as uw
from tests.methods.small_fleet import cross_entropy, kl_to_prior, mean, sample
from tests.raising import about
from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet.engine import Engine
from unweave.fleet.train import train_runs
from unweave.methods import MSVAE
from unweave.methods.batch import Batch
from unweave.models.config import Config
from unweave.models.images import ShapeError
from unweave.nets.adam import Adam
from unweave.random import Stream

SMALL = {"batch": 8, "latents": 3, "architecture": "small_dcgan", "progress": False}


def textbook(fleet, m, method):
    nets, reconstructions, kls = fleet.alone(m).nets(), [], []
    for (image, c), noise in zip(fleet.drawn_codes(m), fleet.noise(m), strict=True):
        blurry = nets.first.decode(torch.tensor([[c]], dtype=torch.float64)).sigmoid()
        q = nets.encode(image - blurry)
        mu, logvar = q.mu.flatten().tolist(), q.logvar.flatten().tolist()
        z = torch.tensor([[sample(mu, logvar, noise)]], dtype=torch.float64)
        logits = nets.apply["decoder"](blurry, z).flatten().tolist()
        reconstructions.append(cross_entropy(logits, image))
        kls.append(kl_to_prior(mu, logvar))
    reconstruction, kl = mean(reconstructions), mean(kls)
    loss = reconstruction + method.beta * kl
    return {"model": loss, "reconstruction": reconstruction, "kl": kl}


def engine_of(method, first, data, **settings):
    configs = [
        Config(
            method=method,
            first=below,
            batch=8,
            latents=3,
            architecture="small_dcgan",
            seed=seed,
            **settings,
        )
        for seed, below in enumerate(first.configs, 5)
    ]
    return Engine(configs, data, "cpu", first.parameters)


def literal_losses(engine, first, data, method):
    """The objective of one model after the other, written out."""
    networks = {n: net for p in engine.groups.values() for n, net in p.networks.items()}
    values = {n: b for p in engine.groups.values() for n, b in p.buffers(p.parameters)}
    found = []
    for m, config in enumerate(engine.configs):
        own = {name: buffer[m : m + 1] for name, buffer in values.items()}
        indices = data.draw_indices(8, Stream(config.seed, "draw", 0))
        x = torch.from_numpy(data.images(indices.numpy()) / 255)[None].float()
        mu, logvar = networks["first/encoder"](own["first/encoder"], x).chunk(2, -1)
        noise = Stream(config.seed, "first stage", 0).normal(indices, 6)
        c = mu + (logvar / 2).exp() * noise
        logits = networks["first/decoder"](own["first/decoder"], c)
        y = logits if method.condition == "logits" else torch.sigmoid(logits)
        mu, logvar = networks["encoder"](own["encoder"], x - y).chunk(2, -1)
        z = mu + (logvar / 2).exp() * Stream(config.seed, "posterior", 0).normal(8, 3)
        given = c if method.condition == "code" else y
        if method.mixing == "concat":
            wide = z if given.ndim == 3 else z[:, :, None, None].expand(-1, -1, 32, 32, -1)
            given = torch.cat([given, wide], -1)
        decoded = networks["decoder"](own["decoder"], given, z)
        bce = F.binary_cross_entropy_with_logits(decoded, x, reduction="none").sum((0, 2, 3, 4))
        kl = 0.5 * (mu**2 + logvar.exp() - logvar - 1).sum((0, 2))
        beta = float(config.method.beta)
        found.append([bce.mean() + beta * kl.mean(), bce.mean(), kl.mean()])
    return torch.tensor(found).T


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"beta": 4.0},
        {"condition": "logits"},
        {"condition": "code"},
        {"condition": "code", "mixing": "concat"},
        {"mixing": "concat"},
        {"mixing": "pixelwise"},
    ],
    ids=str,
)
def test_the_loss_matches_the_paper(settings, first, sprites):
    method = MSVAE(**settings)
    engine = engine_of(method, first, sprites)
    expected = literal_losses(engine, first, sprites, method)
    engine.advance(1)
    assert engine.terms == ("loss", "reconstruction", "kl")
    torch.testing.assert_close(engine.fetch(), expected, rtol=1e-5, atol=1e-4)


def test_the_first_stage_stays_as_it_was(first, sprites):
    before = {name: buffer.clone() for name, buffer in first.parameters.items()}
    codes, spreads = first.encode(sprites)
    two = uw.train(MSVAE(), sprites, first=first, steps=10, **SMALL)
    for name, buffer in before.items():
        assert torch.equal(first.parameters[name], buffer)
        assert torch.equal(two.first.parameters[name], buffer)
    means, logvars = two.encode(sprites)
    assert np.array_equal(means[..., :6], codes)
    assert np.array_equal(logvars[..., :6], spreads)
    assert means.shape == (2, 1024, 9)
    assert np.array_equal(two.first[1].encode(sprites)[0], codes[1])
    scores = [uw.evaluate(one, sprites, metrics=["mig"])["mig"] for one in (first, two.first)]
    assert scores[0].tolist() == scores[1].tolist()


def test_codes_are_those_of_all_stages_and_decode_to_images(first, sprites):
    two = uw.train(MSVAE(), sprites, first=first, steps=3, **SMALL)
    codes = two.encode(sprites.images([0, 9]))[0]
    images = two.decode(codes)
    assert images.shape == (2, 2, 32, 32, 1)
    model = two[1]
    y = torch.from_numpy(first[1].decode(codes[1, :, :6]))[None]
    z = torch.from_numpy(codes[1:, :, 6:])
    logits = model._networks["decoder"](model.parameters["decoder"], y, z)
    np.testing.assert_allclose(images[1], torch.sigmoid(logits[0]).numpy(), atol=1e-6)
    moved = codes[1].copy()
    moved[:, 8] += 2
    assert np.abs(model.decode(moved) - images[1]).max() > 1e-4
    with pytest.raises(UnweaveError, check=about("codes")):
        model.decode(codes[1, :, :6])


def test_an_image_keeps_its_code_of_the_first_stage(sprites):
    def noise(draws, step, indices):
        seeds = torch.tensor([1, 2])
        batch = Batch(
            torch.zeros(2, 3, 1), seeds, torch.tensor(step), len(sprites), indices=indices
        )
        return MSVAE.noise_of_images(batch, torch.zeros(2, 3, 6), draws)

    some, others = torch.tensor([[4, 5, 6], [6, 5, 4]]), torch.tensor([[5, 7, 4], [9, 4, 5]])
    one, other = noise(1, 0, some), noise(1, 100, others)
    assert torch.equal(one[0, 1], other[0, 0])
    assert torch.equal(one[0, 0], other[0, 2])
    assert torch.equal(one[1, 1], other[1, 2])
    assert not torch.equal(one[0, 1], one[1, 1])
    same = torch.full((2, 3), 4)
    drawn = torch.cat([noise(4, step, same)[0] for step in range(40)])
    assert len(drawn.unique(dim=0)) == 4
    counts = torch.unique(drawn, dim=0, return_counts=True)[1]
    assert counts.min() > 15


def test_a_fleet_matches_single_models(first, sprites):
    both = uw.train(MSVAE(beta=[1, 2]), sprites, first=first, steps=12, **SMALL)
    assert len(both) == 4
    alone = uw.train(MSVAE(beta=2), sprites, first=first[1], steps=12, **SMALL)
    assert both[3].config == alone[0].config
    for name, buffer in alone.parameters.items():
        assert torch.equal(both[3].parameters[name], buffer)


def test_a_saved_model_is_self_contained(first, sprites, tmp_path):
    (model,) = uw.train(MSVAE(), sprites, first=first[0], steps=2, **SMALL)
    model.save(tmp_path / "model")
    again = uw.load(tmp_path / "model")
    assert again.config == model.config
    assert again.config.first == first[0].config
    images = sprites.images(range(5))
    for one, other in zip(model.encode(images), again.encode(images), strict=True):
        assert np.array_equal(one, other)
    plain = json.loads((tmp_path / "model" / "config.json").read_text())
    assert plain["first"]["method"]["name"] == "beta_tc_vae"
    assert "first" not in first[0].config.to_dict()


def test_interrupted_training_resumes_identically(first, sprites, tmp_path):
    whole = uw.train(MSVAE(), sprites, first=first, steps=6, **SMALL)
    with pytest.raises(InterruptedTrainingError):
        train_runs(
            whole.configs,
            sprites,
            first=first,
            out=tmp_path,
            progress=False,
            on_progress=lambda said: "step 3 " in said,
        )
    first.save(tmp_path)
    rest = train_runs(whole.configs, sprites, out=tmp_path, progress=False)
    for name, buffer in whole.parameters.items():
        assert torch.equal(rest.parameters[name], buffer)


def test_a_third_stage_builds_on_a_second(first, sprites):
    two = uw.train(MSVAE(), sprites, first=first, steps=2, **SMALL)
    three = uw.train(MSVAE(), sprites, first=two, steps=2, **{**SMALL, "latents": 2})
    codes = three.encode(sprites.images(range(4)))[0]
    assert codes.shape == (2, 4, 11)
    assert np.array_equal(codes[..., :9], two.encode(sprites.images(range(4)))[0])
    assert three.decode(codes).shape == (2, 4, 32, 32, 1)
    assert three.first.first[0].config == first[0].config
    assert torch.equal(three.parameters["first/first/encoder"], first.parameters["encoder"])


def test_joint_training_applies_the_penalty_of_the_first_stage(sprites):
    start = uw.train(
        uw.methods.BetaVAE(beta=[1, 50]), sprites, steps=0, batch=8, latents=6, progress=False
    )
    two = uw.train(MSVAE(together=True), sprites, first=start, steps=40, **SMALL)
    assert not torch.equal(two.first.parameters["encoder"], start.parameters["encoder"])
    curve = two.curve.groupby("run", sort=False)["kl_of_c"].last().tolist()
    assert curve[1] < 0.8 * curve[0]
    engine = engine_of(MSVAE(together=True), start, sprites, optimiser=Adam(lr=3e-3))
    assert engine.groups["first"].optimiser.values["lr"].flatten().tolist() == pytest.approx(
        [3e-3] * 2
    )
    engine.advance(1)
    loss, reconstruction, kl, kl_of_c = engine.fetch()[:4]
    torch.testing.assert_close(loss, reconstruction + kl + torch.tensor([1.0, 50.0]) * kl_of_c)


def test_a_jointly_trained_first_stage_has_a_new_seed(sprites):
    quick = {"steps": 0, "batch": 8, "latents": 6, "progress": False}
    (start,) = uw.train(uw.methods.BetaVAE(beta=4), sprites, **quick)
    (along,) = uw.train(MSVAE(together=True), sprites, first=start, steps=2, **SMALL)
    assert along.first.configs[0].hash != start.config.hash
    (apart,) = uw.train(MSVAE(), sprites, first=start, steps=2, **SMALL)
    assert apart.first.configs[0].hash == start.config.hash
    factor = uw.train(uw.methods.FactorVAE(width=9), sprites, **quick)
    with pytest.raises(UnweaveError, check=about("together")):
        uw.train(MSVAE(together=True), sprites, first=factor, steps=1, **SMALL)


def test_noise_of_a_first_stage_that_is_trained_is_new_at_every_step():
    def noise(method, step):
        indices = torch.tensor([[4, 5]])
        batch = Batch(torch.zeros(1, 2, 1), torch.tensor([1]), torch.tensor(step), 9)
        return method._noise(replace(batch, indices=indices), torch.zeros(1, 2, 3))

    assert torch.equal(noise(MSVAE(), 0), noise(MSVAE(), 7))
    assert not torch.equal(noise(MSVAE(together=True), 0), noise(MSVAE(together=True), 7))


def test_frozen_networks_have_no_moments(first, sprites):
    engine = engine_of(MSVAE(), first, sprites)
    assert engine.groups["first"].moments.first.numel() == 0
    assert engine.groups["model"].moments.first.numel() > 0


def test_first_stages_are_models_or_a_folder_of_them(first, sprites, tmp_path):
    first.save(tmp_path)
    by_folder = uw.train(MSVAE(), sprites, first=tmp_path, steps=1, **SMALL)
    listed = uw.train(MSVAE(), sprites, first=list(first), steps=1, **SMALL)
    assert {c.first.hash for c in by_folder.configs} == {c.hash for c in first.configs}
    assert listed.configs == uw.train(MSVAE(), sprites, first=first, steps=1, **SMALL).configs
    large = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
    with pytest.raises(ShapeError):
        uw.train(MSVAE(), large, first=first, steps=1, **SMALL)


def test_a_report_tells_of_models_in_stages(first, sprites, tmp_path):
    first.save(tmp_path / "runs")
    two = uw.train(MSVAE(), sprites, first=first, steps=2, out=tmp_path / "runs", **SMALL)
    uw.show.report(tmp_path / "runs", tmp_path / "report.html", sprites, progress=False)
    page = (tmp_path / "report.html").read_text()
    assert "MS-VAE" in page
    assert "damaged" not in page
    assert len(two) == 2


def test_invalid_settings_of_second_stages_raise_errors(first, sprites, tmp_path):
    with pytest.raises(UnweaveError, check=about("first", None)):
        uw.train(MSVAE(), sprites, steps=1, progress=False)
    with pytest.raises(UnweaveError, check=about("first", first[0].config)):
        uw.train(uw.methods.BetaVAE(), sprites, first=first, steps=1, progress=False)
    with pytest.raises(UnweaveError, check=about("architecture", "conv")):
        uw.train(MSVAE(), sprites, first=first, steps=1, architecture="conv", progress=False)
    for settings in ({"condition": "x"}, {"mixing": "x"}, {"draws": 0}, {"together": 1}):
        with pytest.raises(UnweaveError, check=about(*next(iter(settings.items())))):
            MSVAE(**settings)
    configs = uw.train(MSVAE(), sprites, first=first, steps=1, **SMALL).configs
    with pytest.raises(UnweaveError) as caught:
        train_runs(configs, sprites, out=tmp_path, progress=False)
    assert first.configs[0].hash in str(caught.value)
    ensemble = uw.train(
        uw.methods.VAEEnsemble(members=2), sprites, steps=1, batch=4, progress=False
    )
    with pytest.raises(UnweaveError, check=about("members")):
        uw.train(MSVAE(), sprites, first=ensemble, steps=1, **SMALL)
    over_a_member = uw.train(MSVAE(), sprites, first=ensemble.members[1], steps=1, **SMALL)
    assert np.isfinite(over_a_member.curve["loss"]).all()
    lost = first[0]
    lost = type(lost)(lost.configs, lost.shape, lost.parameters, lost.curve, np.array([3]))
    with pytest.raises(UnweaveError) as caught:
        uw.train(MSVAE(), sprites, first=lost, steps=1, **SMALL)
    assert lost.config.hash in str(caught.value)
    with pytest.raises(UnweaveError, check=about("first")):
        _ = first.first
