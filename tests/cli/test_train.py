"""`unweave train`, as a user runs it."""

import json
import re
import shutil

import pytest
import torch
from mlflow import MlflowClient
from PIL import Image

import unweave as uw
from tests.cli.calling import NOTHING, run
from unweave.cli import main


def test_train_writes_models_and_figures_and_resumes(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for k in range(6):
        Image.new("L", (40, 40), 40 * k).save(images / f"{k}.png")
    args = ["train", images, "beta-vae", "--beta", 1, 4, "--seeds", 2, "--steps", 3]
    args += ["--size", 32, "--batch", 4, "--out", tmp_path / "runs", "--device", "cpu"]
    done = run(*args)
    assert done.returncode == 0, done.stderr
    assert "4 beta_vae models of 32 × 32 × 1 images" in done.stdout
    folders = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    assert len(folders) == 4
    assert len(list((tmp_path / "runs").glob("*.png"))) == 4
    model = uw.load(folders[0])
    assert model.encode(uw.data.load(images, size=32))[0].shape == (6, 10)
    stamps = {path: path.stat().st_mtime_ns for path in folders}
    assert run(*args).returncode == 0
    assert stamps == {path: path.stat().st_mtime_ns for path in folders}
    # A run knows where its images are.
    args = ["show", folders[0], "--kind", "reconstructions", "-o", tmp_path / "seen.png"]
    done = run(*args)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen.png").stat().st_size > 500


@pytest.mark.parametrize(
    ("args", "datum"),
    [
        (["train", "dsprites", "betavae"], "'beta_vae'"),
        (["train", "dsprites", "beta-vae", "--bta", "3"], "--beta"),
        (["train", "--steps", "1", "dsprites", "beta-vae"], "SOURCE METHOD"),
        (["train", "pendulum", "ae", "--device", "cuda", "--architecture", "mlp"], "no GPU"),
        (["train", "dsprites", "beta-vae", "--beta", "-1"], "beta"),
        (["train", "dsprites", "beta-tc-vae", "--estimator", "mss"], "stratified"),
        (["train", "dsprites", "beta-vae", "--minutes", "nan"], "minutes"),
        (["train", "dsprites", "vae", "--track", "tensorbord=logs"], "'tensorboard'"),
    ],
)
def test_errors_in_training_are_one_sentence(args, datum, tmp_path):
    done = run(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert datum in done.stderr + done.stdout


def test_each_method_has_help_with_its_own_flags_and_an_example():
    done = run("train", "dsprites", "annealed-vae", "--help")
    assert done.returncode == 0
    for text in (
        "--c-max",
        "--gamma",
        "--threshold",
        "Example: unweave train dsprites annealed-vae",
    ):
        assert text in done.stdout
    assert not NOTHING.search(done.stdout)
    assert "--device {cpu,cuda} " in done.stdout


def test_the_help_of_train_lists_every_method(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    output = capsys.readouterr().out
    listed = set(re.findall(r"[a-z0-9-]+", output.split("Methods: ")[1].split("Their flags")[0]))
    assert {name.replace("_", "-") for name in uw.methods.EVERY} <= listed


def test_too_little_disk_space_is_an_error_before_training(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**6))
    done = run("train", "dsprites", "beta-vae", "--steps", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert "GB" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_curves_are_written_to_all_trackers(tmp_path):
    args = ["train", "dsprites", "vae", "--steps", "1", "--batch", "4", "--no-pictures"]
    args += ["--architecture", "small_mlp", "--device", "cpu", "--out", str(tmp_path / "runs")]
    uri = f"sqlite:///{tmp_path / 'runs.db'}"
    main([*args, "--track", f"tensorboard={tmp_path / 'logs'}", "--track", f"mlflow={uri}"])
    (run,) = (path.name for path in (tmp_path / "runs").iterdir() if path.is_dir())
    (series,) = (tmp_path / "logs").iterdir()
    assert series.name == f"vae-seed0-{run[:8]}"
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("unweave").experiment_id
    (found,) = client.search_runs([experiment])
    assert f"kl_9/{series.name}" in found.data.metrics


def test_a_tracker_that_fails_does_not_lose_the_models(tmp_path, capsys):
    (tmp_path / "logs").write_text("not a folder")
    args = ["train", "dsprites", "vae", "--steps", "1", "--batch", "4", "--no-pictures"]
    args += ["--architecture", "small_mlp", "--device", "cpu", "--out", str(tmp_path / "runs")]
    with pytest.raises(SystemExit) as left:
        main([*args, "--track", f"tensorboard={tmp_path / 'logs'}"])
    assert left.value.code == 2
    assert "TensorBoard.on_window" in capsys.readouterr().err
    assert len(list((tmp_path / "runs").glob("*/weights.safetensors"))) == 1


@pytest.mark.parametrize("flag", ["--learning-rate", "--lr"])
def test_the_learning_rate_has_one_name_and_a_short_one(flag, tmp_path):
    done = run("train", "dsprites", "vae", flag, "0.01", "--steps", "0", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("*/config.json")
    assert json.loads(folder.read_text())["optimiser"]["lr"] == 0.01
    assert flag in run("fit", "--help").stdout


def test_flags_of_the_optimiser_are_those_of_adam(tmp_path):
    args = ["train", "dsprites", "vae", "--steps", "1", "--batch", "4", "--no-pictures"]
    args += ["--architecture", "small_mlp", "--device", "cpu", "--out", str(tmp_path)]
    args += ["--weight-decay", "0.01", "--clip", "5", "--clip-norm", "9", "--warm-up", "2"]
    main(
        [
            *args,
            "--schedule",
            "step",
            "--decay-every",
            "1",
            "--decay-factor",
            "0.5",
            "--ema",
            "0.5",
        ]
    )
    (config,) = [uw.load(path).config for path in tmp_path.iterdir() if path.is_dir()]
    assert config.optimiser == uw.Adam(
        weight_decay=0.01,
        clip=5,
        clip_norm=9,
        warm_up=2,
        schedule="step",
        decay_every=1,
        decay_factor=0.5,
        ema=0.5,
    )


def test_models_are_trained_further_by_flags(tmp_path, capsys):
    for k in range(6):
        Image.new("L", (32, 32), 40 * k).save(tmp_path / f"{k}.png")
    args = ["train", tmp_path, "vae", "--size", 32, "--batch", 2, "--architecture", "small_mlp"]
    args = [f"{arg}" for arg in (*args, "--no-pictures", "--out", tmp_path / "runs", "--steps")]
    main([*args, "2", "--keep-optimiser"])
    capsys.readouterr()
    main([*args, "4", "--minutes", "5"])
    assert "at step 2" in capsys.readouterr().err
    longest = uw.load(next(run for run in (tmp_path / "runs").iterdir() if steps_of(run) == 4))
    main([*args[:-2], f"{tmp_path / 'whole'}", "--steps", "4"])
    (whole,) = (tmp_path / "whole").iterdir()
    assert torch.equal(uw.load(whole).parameters["decoder"], longest.parameters["decoder"])


def steps_of(run):
    return json.loads((run / "config.json").read_text())["steps"]
