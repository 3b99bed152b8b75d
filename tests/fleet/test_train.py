"""Training from beginning to end: learning, resuming, interrupting, saving."""

import json
import os
import re
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import unweave as uw
from tests.raising import about
from unweave.errors import InterruptedTrainingError, UnknownNameError, UnweaveError
from unweave.fleet import checkpoint, loop
from unweave.fleet import train as training
from unweave.fleet.checkpoint import checkpoints
from unweave.fleet.diagnostics import curve_columns
from unweave.fleet.engine import Engine
from unweave.io.checksums import write_sums
from unweave.methods import AnnealedVAE, BetaVAE, FactorVAE
from unweave.models.config import Config
from unweave.models.files import FILES
from unweave.models.images import ShapeError


def test_a_vae_and_a_beta_vae_learn(sprites):
    """The best constant image costs 204 nats a sprite; both get far below, β = 4 with less KL."""
    fleet = uw.train(
        BetaVAE(beta=[1, 4]),
        sprites,
        steps=150,
        batch=16,
        optimiser=uw.Adam(lr=2e-3),
        progress=False,
    )
    vae, beta_vae = fleet.curve.groupby("run", sort=False).tail(1).to_dict("records")
    assert vae["reconstruction"] < 90
    assert beta_vae["reconstruction"] < 130
    assert 9 < vae["kl"] < 15
    assert 3.5 < beta_vae["kl"] < 7
    mean, logvar = fleet.encode(sprites)
    assert mean.shape == logvar.shape == (2, 768, 10)
    decoded = fleet[0].decode(mean[0])
    assert np.abs(decoded - sprites[:] / 255).mean() < 0.04


def test_the_kl_of_every_latent_is_followed_now_and_then(sprites, monkeypatch):
    monkeypatch.setattr(loop, "WINDOW", 2)
    monkeypatch.setattr(loop, "MAX_DIAGNOSES", 3)
    fleet = uw.train(BetaVAE(beta=[1, 4]), sprites, steps=11, batch=8, progress=False)
    latents = [f"kl_{latent}" for latent in range(10)]
    curve = fleet.curve[fleet.curve["run"] == fleet.configs[1].hash]
    assert curve["step"].tolist() == [2, 4, 6, 8, 10, 11]
    assert curve[latents].notna().all(axis=1).tolist() == [False, True, False, True, False, True]
    watched = np.random.default_rng(0).permutation(len(sprites))[:128]
    mean, logvar = fleet[1].encode(sprites.images(watched))
    kl = 0.5 * (mean**2 + np.exp(logvar) - logvar - 1).mean(0)
    np.testing.assert_allclose(curve[latents].iloc[-1], kl, rtol=1e-4)
    autoencoders = uw.train(uw.methods.AE(), sprites, steps=1, batch=8, progress=False)
    assert not set(latents) & set(autoencoders.curve.columns)


def test_the_kl_of_annealed_vae_follows_its_capacity(sprites):
    method = AnnealedVAE(c_max=12, gamma=100, threshold=300)
    settings = {"batch": 16, "architecture": "small_mlp", "optimiser": uw.Adam(lr=1e-3)}
    fleet = uw.train(method, sprites, steps=400, progress=False, **settings)
    curve = fleet.curve.set_index("step")["kl"]
    # Each row is the mean over the hundred steps before it.
    for step, capacity in [(200, 6.0), (300, 10.0), (400, 12.0)]:
        assert curve[step] == pytest.approx(capacity, abs=1.5)


def test_seeds_and_values_make_the_grid_in_order(sprites):
    fleet = uw.train(BetaVAE(beta=[1, 2]), sprites, seeds=[5, 3], steps=1, batch=4, progress=False)
    assert [(c.method.beta, c.seed) for c in fleet.configs] == [(1, 5), (1, 3), (2, 5), (2, 3)]
    assert len(fleet) == 4
    assert fleet[-1].config is fleet.configs[3]


def weights(fleet):
    return torch.cat([fleet.parameters[name] for name in sorted(fleet.parameters)], 1)


def test_finished_runs_are_skipped_and_new_values_are_added(sprites, tmp_path):
    settings = {"seeds": 1, "steps": 5, "batch": 4, "out": tmp_path, "progress": False}
    first = uw.train(BetaVAE(beta=[1, 2]), sprites, **settings)
    stamps = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    more = uw.train(BetaVAE(beta=[1, 2, 4]), sprites, **settings)
    assert len(more) == 3
    assert len(list(tmp_path.iterdir())) == 3
    for name, stamp in stamps.items():
        assert (tmp_path / name).stat().st_mtime_ns == stamp
    assert torch.equal(weights(more)[:2], weights(first))


def test_a_saved_model_is_the_model(sprites, tmp_path):
    fleet = uw.train(
        FactorVAE(gamma=[10, 20]), sprites, steps=3, batch=4, out=tmp_path, progress=False
    )
    for model in fleet:
        again = uw.load(tmp_path / model.config.hash)
        assert again.config == model.config
        assert again.config.hash == model.config.hash
        np.testing.assert_array_equal(again.encode(sprites[:7])[0], model.encode(sprites[:7])[0])
        np.testing.assert_array_equal(again.curve["loss"], model.curve["loss"])
        assert again.named_parameters().keys() == model.named_parameters().keys()
        assert again.named_parameters()["discriminator/0.weight"].shape == (10, 1000)
    config = json.loads((tmp_path / fleet.configs[0].hash / "config.json").read_text())
    assert config["method"] == {"name": "factor_vae", "gamma": 10.0}
    with pytest.raises(UnweaveError, match=fleet.configs[0].hash):
        fleet[0].save(tmp_path / fleet.configs[0].hash)


def test_damaged_and_missing_models_are_one_sentence(sprites, tmp_path):
    (model,) = uw.train(BetaVAE(), sprites, steps=1, batch=4, out=tmp_path, progress=False)
    folder = tmp_path / model.config.hash
    other = shutil.copytree(folder, tmp_path / "other") / "config.json"
    other.write_text(other.read_text().replace('"latents": 10', '"latents": 9'))
    write_sums(other.parent, FILES)
    with pytest.raises(UnweaveError, match=r"\[256, 20\]"):
        uw.load(other.parent)
    for name in ("curve.parquet", "weights.safetensors", "config.json"):
        (other.parent / name).unlink()
        with pytest.raises(UnweaveError, match=re.escape(name)):
            uw.load(other.parent)
    other.write_text("[]")
    shutil.copy(folder / "weights.safetensors", other.parent)
    shutil.copy(folder / "curve.parquet", other.parent)
    write_sums(other.parent, FILES)
    with pytest.raises(UnweaveError, match=r"config\.json"):
        uw.load(other.parent)
    os.truncate(folder / "weights.safetensors", 1000)
    with pytest.raises(UnweaveError, match=str(folder)):
        uw.load(folder)
    with pytest.raises(UnweaveError, match="nothing"):
        uw.load(tmp_path / "nothing")


def test_images_of_another_shape_are_refused(sprites):
    (model,) = uw.train(BetaVAE(), sprites, steps=1, batch=4, progress=False)
    with pytest.raises(ShapeError):
        model.encode(np.zeros((2, 64, 64, 1), dtype=np.uint8))
    with pytest.raises(UnweaveError, match="10"):
        model.decode(np.zeros((2, 9)))


def test_bytes_floats_and_tensors_encode_alike(sprites):
    (model,) = uw.train(BetaVAE(), sprites, steps=1, batch=4, progress=False)
    images = sprites[:3]
    expected = model.encode(images)[0]
    for same in (images / np.float32(255), torch.from_numpy(images)):
        np.testing.assert_allclose(model.encode(same)[0], expected, atol=1e-6)
    np.testing.assert_allclose(model.encode(images[0])[0], expected[:1], atol=1e-6)


def test_a_fleet_resumed_at_any_checkpoint_ends_with_the_same_weights(
    sprites, tmp_path, monkeypatch
):
    monkeypatch.setattr(loop, "WINDOW", 7)
    configs = [
        Config(method=FactorVAE(gamma=gamma, width=50), seed=seed, steps=30, batch=4)
        for gamma, seed in [(10.0, 1), (40.0, 2)]
    ]
    whole = training.train_runs(configs, sprites, progress=False)

    class Killed(Exception):
        """Stands for the power cut."""

    advance, taken = Engine.advance, []

    def advance_until_killed(engine, steps):
        taken.append(steps)
        if len(taken) % 4 == 0:
            raise Killed
        advance(engine, steps)

    monkeypatch.setattr(Engine, "advance", advance_until_killed)
    kills = 0
    while True:
        try:
            pieces = training.train_runs(
                configs, sprites, out=tmp_path, progress=False, checkpoint_every=0
            )
            break
        except Killed:
            kills += 1
            assert [path.name for path in tmp_path.iterdir() if path.name[0] != "."] == []
    assert kills >= 3
    assert (weights(pieces) - weights(whole)).abs().max() <= 1e-6
    np.testing.assert_allclose(pieces.curve["loss"], whole.curve["loss"], rtol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(c.hash for c in configs)


def test_killed_while_saving_the_rest_is_not_trained_again(sprites, tmp_path, monkeypatch):
    settings = {"seeds": 3, "steps": 4, "batch": 4, "out": tmp_path, "progress": False}
    settings["checkpoint_every"] = 0.0
    whole = uw.train(BetaVAE(), sprites, **{**settings, "out": None})
    save, saved = uw.Model.save, []

    def save_one(model, folder):
        if saved:
            raise KeyboardInterrupt
        saved.append(save(model, folder))

    with monkeypatch.context() as patched:
        patched.setattr(uw.Model, "save", save_one)
        with pytest.raises(KeyboardInterrupt):
            uw.train(BetaVAE(), sprites, **settings)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1
    monkeypatch.setattr(Engine, "advance", None)  # nothing may be trained any more
    again = uw.train(BetaVAE(), sprites, **settings)
    assert torch.equal(weights(again), weights(whole))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        c.hash for c in again.configs
    )


def test_short_runs_are_saved_without_a_checkpoint(sprites, tmp_path, monkeypatch):
    settings = {"steps": 4, "batch": 4, "out": tmp_path, "progress": False}
    monkeypatch.setattr(checkpoint, "save", None)  # no checkpoint may be written
    uw.train(BetaVAE(), sprites, **settings, checkpoint_every=1_000.0)
    with pytest.raises(TypeError):
        uw.train(BetaVAE(), sprites, seeds=[1], **settings, checkpoint_every=0.0)


def test_an_interrupted_fleet_serves_a_part_of_its_runs(sprites, tmp_path):
    configs = [Config(method=BetaVAE(beta=b), seed=1, steps=6, batch=4) for b in (1.0, 2.0, 4.0)]
    engine = Engine(configs, sprites, "cpu")
    engine.advance(4)
    checkpoint.save(
        engine,
        torch.empty(0, len(curve_columns(engine)), 3),
        tmp_path / ".fleet-earlier.safetensors",
    )
    part = training.train_runs(configs[1:2], sprites, out=tmp_path, progress=False)
    engine.advance(2)
    assert torch.equal(
        part.parameters["encoder"][0],
        dict(engine.groups["model"].buffers(engine.groups["model"].parameters))["encoder"][1],
    )
    assert (tmp_path / ".fleet-earlier.safetensors").exists()  # two of its runs still need it


def test_the_callback_can_stop_training(sprites, tmp_path):
    configs = [Config(method=BetaVAE(), seed=1, steps=6, batch=4)]
    whole = training.train_runs(configs, sprites, progress=False)
    heard = []

    def stop_at_the_third(doing):
        heard.append(doing)
        return doing == "1 model at step 3 of 6"

    with pytest.raises(InterruptedTrainingError, check=about("step", 3)):
        training.train_runs(
            configs, sprites, out=tmp_path, progress=False, on_progress=stop_at_the_third
        )
    heard.clear()
    rest = training.train_runs(
        configs, sprites, out=tmp_path, progress=False, on_progress=heard.append
    )
    assert heard[0] == "1 model at step 4 of 6"
    assert torch.equal(weights(rest), weights(whole))


def test_settings_that_cannot_share_a_fleet_train_one_after_another(sprites):
    method = uw.methods.BetaTCVAE(beta=[2, 4], estimator=["minibatch", "weighted"])
    fleet = uw.train(method, sprites, steps=1, batch=4, progress=False)
    assert [c.method.estimator for c in fleet.configs] == ["minibatch", "weighted"] * 2
    assert [c.method.beta for c in fleet.configs] == [2, 2, 4, 4]


def test_the_time_of_a_step_is_as_measured():
    """Fleets share a deadline by these times, so that all get about as many steps."""
    folder = Path(__file__).parents[2]
    measured = json.loads((folder / "benchmarks/results/fleet_h200.json").read_text())["fleet"]
    times = {row["models"]: row["models"] * row["us_per_model_step"] for row in measured}
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    for models in (1, 8, 64, 256):
        expected = training.cost(models, gpu) / training.cost(64, gpu)
        assert times[models] / times[64] == pytest.approx(expected, rel=0.2)
    assert training.cost(12, cpu) == 12 * training.cost(1, cpu)


@dataclass(frozen=True, kw_only=True)
class Mine(uw.methods.VAE):
    """A method of the user's own."""

    name = "mine"
    strength: uw.methods.Strength = 2.0

    def regularizer(self, elbo, batch):
        return self.strength * elbo.kl


def test_a_custom_method_is_saved_loaded_and_skipped(sprites, tmp_path):
    settings = {"steps": 2, "batch": 4, "out": tmp_path, "progress": False}
    first = uw.train(Mine(strength=[1, 3]), sprites, **settings)
    again = uw.train(Mine(strength=[1, 3]), sprites, **settings)
    assert torch.equal(weights(first), weights(again))
    model = uw.load(tmp_path / first.configs[1].hash, method=Mine)
    assert model.config.method == Mine(strength=3.0)
    # Its module is imported already, so that its name in the config is enough.
    assert uw.load(tmp_path / first.configs[1].hash).config == model.config


def test_a_folder_that_cannot_be_written_is_found_before_training(sprites, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setattr(Engine, "advance", None)
    with pytest.raises(UnweaveError, match="taken"):
        uw.train(BetaVAE(), sprites, steps=1, out=tmp_path / "taken", progress=False)


def test_curves_train_with_dense_layers_towards_the_right_loss():
    data = uw.data.load("pendulum")
    config = Config(
        method=uw.methods.AE(), architecture="mlp", likelihood="gaussian", batch=64, latents=3
    )
    engine = Engine([config], data, "cpu")
    engine.advance(1)
    expected = float((data.curves(np.arange(len(data))) ** 2).sum(1).mean())
    assert float(engine.fetch()[0, 0]) == pytest.approx(expected, rel=0.5)


SCRIPT = """
import sys
import numpy as np
from PIL import Image

import unweave as uw
from unweave.errors import InterruptedTrainingError
images = np.random.default_rng(0).integers(0, 256, (64, 32, 32), dtype=np.uint8)
try:
    data = uw.data.load(images)
    uw.train(
        uw.methods.VAE(),
        data,
        seeds=2,
        steps=int(sys.argv[2]),
        batch=4,
        out=sys.argv[1],
        checkpoint_every=0.1,
    )
except InterruptedTrainingError as error:
    print(error)
    sys.exit(130)
"""


def wait_for_checkpoint(folder):
    """Wait for one that is newer than this call."""
    begun = time.time()
    while not any(path.stat().st_mtime > begun for path in folder.glob(".fleet-*.safetensors")):
        assert time.time() < begun + 60
        time.sleep(0.02)


def test_ctrl_c_finishes_the_step_and_saves_a_checkpoint(tmp_path, start):
    process = start(tmp_path, 100_000, code=SCRIPT)
    wait_for_checkpoint(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert "of 100,000" in process.stdout
    assert len(checkpoints(tmp_path)) == 1
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors"}
    assert len(list(tmp_path.iterdir())) <= 2


def test_a_killed_run_resumes_to_the_same_weights(tmp_path, start):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    assert start(undisturbed, 80, code=SCRIPT).wait() == 0
    for _ in range(2):
        process = start(killed, 80, code=SCRIPT)
        wait_for_checkpoint(killed)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert start(killed, 80, code=SCRIPT).wait() == 0
    names = sorted(path.name for path in undisturbed.iterdir())
    assert sorted(path.name for path in killed.iterdir() if path.name in names) == names
    assert len(names) == 2
    for name in names:
        one, other = uw.load(undisturbed / name), uw.load(killed / name)
        for key, value in one.named_parameters().items():
            assert (value - other.named_parameters()[key]).abs().max() <= 1e-5
        np.testing.assert_allclose(one.curve["loss"], other.curve["loss"], rtol=1e-4)


def test_how_many_seeds_may_be_numpys_number(sprites):
    fleet = uw.train(BetaVAE(), sprites, seeds=np.int64(2), steps=0, batch=4)
    assert [config.seed for config in fleet.configs] == [0, 1]


def test_nonsense_is_refused(sprites):
    with pytest.raises(UnweaveError, match="seeds"):
        uw.train(BetaVAE(), sprites, seeds=0, steps=1)
    with pytest.raises(UnweaveError, check=about("runs")):
        uw.train(BetaVAE(beta=[1, 1.0]), sprites, steps=1)
    with pytest.raises(UnknownNameError, check=about("architecture", "convv")):
        uw.train(BetaVAE(), sprites, steps=1, architecture="convv")
    with pytest.raises(UnknownNameError, check=about("training setting", "latent")):
        uw.train(BetaVAE(), sprites, steps=1, latent=5)
    with pytest.raises(UnweaveError, match="lr"):
        uw.Adam(lr=-1)
    with pytest.raises(UnweaveError, match="threshold"):
        AnnealedVAE(threshold=0)
    with pytest.raises(UnweaveError, match="batch"):
        uw.train(BetaVAE(), sprites, steps=1, batch=0)


def test_pairs_without_a_grid_are_a_clear_error():
    data = uw.data.load(np.zeros((4, 32, 32), dtype=np.uint8))
    with pytest.raises(UnweaveError, match="grid"):
        uw.train(uw.methods.AdaGVAE(), data, steps=1, progress=False)


def test_a_checkpoint_with_another_curve_is_refused(tmp_path, sprites):
    configs = [Config(method=uw.methods.VAE(), seed=0, batch=4, steps=6)]
    engine = Engine(configs, sprites, "cpu")
    engine.advance(2)
    # As it was before the KL divergence of every latent was in curves.
    before = torch.empty(0, len(engine.terms) + 1, 1)
    checkpoint.save(engine, before, tmp_path / ".fleet-earlier.safetensors")
    with pytest.raises(UnweaveError, check=about(tmp_path / ".fleet-earlier.safetensors")):
        training.train_runs(configs, sprites, out=tmp_path, progress=False)


def test_a_checkpoint_with_other_losses_is_refused(tmp_path, sprites):
    configs = [Config(method=uw.methods.VAE(), seed=0, batch=4, steps=6)]
    engine = Engine(configs, sprites, "cpu")
    engine.terms, engine.sums = engine.terms[:-1], engine.sums[:-1]
    engine.terms_of = dict.fromkeys(engine.parts, engine.terms)
    rows = torch.empty(0, len(curve_columns(engine)), 1)
    checkpoint.save(engine, rows, tmp_path / ".fleet-earlier.safetensors")
    with pytest.raises(UnweaveError, check=about(tmp_path / ".fleet-earlier.safetensors")):
        training.train_runs(configs, sprites, out=tmp_path, progress=False)


def test_the_working_copy_is_restored(tmp_path, sprites):
    configs = [Config(method=uw.methods.VAE(), seed=s, batch=4, precision="bf16") for s in (0, 1)]
    going, other = (Engine(configs, sprites, "cpu") for _ in range(2))
    going.advance(3)
    rows = torch.empty(0, len(curve_columns(going)), 2)
    checkpoint.save(going, rows, tmp_path / "checkpoint.safetensors")
    checkpoint.restore(other, tmp_path / "checkpoint.safetensors")
    for engine in (going, other):
        engine.advance(2)
    one, two = (engine.groups["model"].parameters for engine in (going, other))
    assert torch.equal(one, two)


ONE = {"steps": 1, "batch": 2, "latents": 2, "progress": False}


@pytest.mark.parametrize("method", ["beta_vae", "Beta-VAE", BetaVAE, BetaVAE()])
def test_a_method_may_be_named_and_data_may_be_an_array_or_a_folder(method, sprites, tmp_path):
    images = sprites[:64]
    np.save(tmp_path / "images.npy", images)
    for place, image in enumerate(images):
        Image.fromarray(image[..., 0]).save(tmp_path / f"{place:02}.png")
    expected = uw.train(BetaVAE(), uw.data.load(images), **ONE)
    for source in (images, torch.from_numpy(images), tmp_path / "images.npy", tmp_path):
        options = {"size": 32} if source is tmp_path else {}
        fleet = uw.train(method, source, **options, **ONE)
        assert fleet.configs[0].method == BetaVAE()
        assert torch.equal(fleet.parameters["encoder"], expected.parameters["encoder"])


@pytest.mark.parametrize("method", ["betavae", 3, None, int])
def test_non_methods_raise_an_error(method, sprites):
    with pytest.raises(UnweaveError):
        uw.train(method, sprites, **ONE)


def test_the_learning_rate_is_adams_lr(sprites):
    def run(**settings):
        (config,) = uw.train("vae", sprites, **settings, **ONE).configs
        return config

    assert run(learning_rate=0.01).hash == run(optimiser=uw.Adam(lr=0.01)).hash
    both = run(optimiser=uw.Adam(beta1=0.5), learning_rate=0.01)
    assert both.optimiser == uw.Adam(lr=0.01, beta1=0.5)
    for wrong in ({"learning_rate": -1.0}, {"learning_rate": "fast"}, {"optimiser": "adam"}):
        with pytest.raises(UnweaveError):
            run(**wrong)
    with pytest.raises(UnweaveError):
        run(optimiser="adam", learning_rate=0.01)
