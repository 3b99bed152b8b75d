"""`uw.fit`: which model is chosen, what is saved, and how a fit is resumed."""

import errno
import json
import math
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import unweave as uw
from tests.raising import about
from unweave import fitting
from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.fitting import MIN_STEPS, FitError
from unweave.io.paths import FILE
from unweave.nets.device import faster_precision

QUICK = {"steps": 3, "batch": 4, "latents": 3, "progress": False}


@pytest.fixture(scope="module")
def data():
    """128 sprites of 32 × 32."""
    full = uw.data.load("dsprites").slice(
        shape=[0, 2], scale=5, orientation=0, posX=range(0, 32, 4), posY=range(0, 32, 4)
    )
    return uw.data.load(full[:].reshape(len(full), 32, 2, 32, 2).mean((2, 4)) / 255, name="small")


@pytest.fixture(scope="module")
def kept(data, tmp_path_factory):
    """A fit and its folder."""
    folder = tmp_path_factory.mktemp("fit") / "out"
    return uw.fit(data, seeds=2, out=folder, **QUICK), folder


def weights(fit):
    return {model.config.hash: model.parameters["encoder"] for model in fit.fleet}


def test_the_model_that_udr_ranks_first_is_chosen(kept, data):
    found, _ = kept
    assert [(c.method.beta, c.seed) for c in found.fleet.configs] == [
        (1, 0),
        (1, 1),
        (4, 0),
        (4, 1),
    ]
    ranking = uw.select.udr(found.fleet, data)
    assert found.ranking["run"].tolist() == ranking["run"].tolist()
    np.testing.assert_allclose(found.ranking["score"], ranking["score"])
    assert found.best.config.hash == ranking["run"][0]
    assert str(found).startswith(f"{uw.select.consensus(found.fleet, data)}. Chosen: BetaVAE")


def test_members_are_those_that_train_gives(kept, data):
    method, adam = uw.methods.BetaVAE(beta=[1, 4]), uw.Adam(lr=1e-3)
    precision = kept[0].best.config.precision
    fleet = uw.train(method, data, seeds=2, optimiser=adam, precision=precision, **QUICK)
    assert torch.equal(fleet.parameters["decoder"], kept[0].fleet.parameters["decoder"])


def test_repeating_a_fit_trains_nothing(kept, data):
    found, folder = kept
    files = sorted(folder.glob("runs/*/weights.safetensors"))
    written = [file.stat().st_mtime_ns for file in files]
    again = uw.fit(data, seeds=2, out=folder, **QUICK)
    assert [file.stat().st_mtime_ns for file in files] == written
    assert again.ranking.equals(found.ranking)


def test_without_steps_a_fit_resumes_with_its_recorded_steps(kept, data, tmp_path):
    _, folder = kept
    quick = {name: value for name, value in QUICK.items() if name != "steps"}
    assert uw.fit(data, seeds=2, out=folder, **quick).best.config.steps == 3


def test_a_fit_resumes_with_its_recorded_precision(data, tmp_path):
    usual = faster_precision(torch.device("cpu"))
    other = {"bf16": "float32", "float32": "bf16"}[usual]
    assert uw.fit(data, seeds=1, **QUICK).best.config.precision == usual
    uw.fit(data, seeds=1, out=tmp_path, precision=other, **QUICK)
    assert uw.fit(data, seeds=1, out=tmp_path, **QUICK).best.config.precision == other


def test_dense_networks_are_fitted_in_float32(data):
    found = uw.fit(data, seeds=1, architecture="small_mlp", **QUICK)
    assert {config.precision for config in found.fleet.configs} == {"float32"}


def test_manifests_without_a_precision_are_those_of_float32(data, tmp_path):
    uw.fit(data, seeds=1, out=tmp_path, precision="float32", **QUICK)
    manifest = tmp_path / "fit.json"
    content = json.loads(manifest.read_text())
    del content["precision"]
    manifest.write_text(json.dumps(content))
    assert uw.fit(data, seeds=1, out=tmp_path, **QUICK).best.config.precision == "float32"


def test_a_deleted_run_is_trained_again(data, tmp_path):
    first = uw.fit(data, seeds=2, out=tmp_path, **QUICK)
    gone = tmp_path / "runs" / first.fleet.configs[2].hash
    for file in gone.iterdir():
        file.unlink()
    gone.rmdir()
    second = uw.fit(data, seeds=2, out=tmp_path, **QUICK)
    assert gone.exists()
    for run, buffer in weights(first).items():
        torch.testing.assert_close(weights(second)[run], buffer)


@pytest.mark.parametrize(
    "other", [{"seeds": 3}, {"seeds": 2, "steps": 4}, {"seeds": 2, "batch": 5}]
)
def test_another_fit_in_the_same_folder_is_an_error(kept, data, other):
    with pytest.raises(FitError, check=about(kept[1], (4, 3))):
        uw.fit(data, out=kept[1], **{**QUICK, **other})


def test_a_damaged_manifest_is_an_error(data, tmp_path):
    (tmp_path / "fit.json").write_text("{")
    with pytest.raises(FitError, check=about(tmp_path / "fit.json")):
        uw.fit(data, seeds=2, out=tmp_path, **QUICK)


def test_steps_follow_from_minutes(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(fitting, "_seconds_per_step", lambda *_: 0.001)
    settings = {"batch": 1, "latents": 2, "architecture": "small_mlp"}
    method = uw.methods.BetaVAE(beta=2)
    uw.fit(data, method, seeds=1, minutes=0.02, out=tmp_path, **settings)
    steps = json.loads((tmp_path / "fit.json").read_text())["steps"]
    assert steps == 1_200
    line = "Training 1 model for 1,200 steps (about 1 min on this machine)"
    assert line in capsys.readouterr().err


def test_a_single_model_is_chosen(data):
    method = uw.methods.BetaVAE(beta=2)
    found = uw.fit(data, method, seeds=1, **QUICK)
    assert found.best.config.method == method
    assert found.ranking["score"].isna().all()


def test_models_that_diverge_are_not_chosen_and_all_of_them_are_an_error(data):
    adam = uw.Adam(lr=1e18)
    with pytest.raises(FitError, check=about("fleet")):
        uw.fit(data, seeds=1, optimiser=adam, **{**QUICK, "steps": 8})
    healthy = uw.fit(data, uw.methods.BetaVAE(beta=[1, 1e38]), seeds=1, **{**QUICK, "steps": 8})
    assert healthy.fleet.diverged_at[1] >= 0
    assert healthy.best.config.method.beta == 1


def test_methods_that_cannot_share_a_fleet_are_timed_separately(data, capsys):
    method = uw.methods.BetaTCVAE(beta=2, estimator=["minibatch", "weighted"])
    settings = {"batch": 2, "latents": 2, "architecture": "small_mlp"}
    found = uw.fit(data, method, seeds=1, minutes=0.001, **settings)
    assert [config.method.estimator for config in found.fleet.configs] == ["minibatch", "weighted"]
    assert found.best.config.steps == MIN_STEPS
    assert "Training 2 models" in capsys.readouterr().err


def test_everything_that_can_be_loaded_can_be_fitted(data, tmp_path):
    np.save(tmp_path / "small.npy", data[:])
    found = uw.fit(tmp_path / "small.npy", seeds=1, **QUICK)
    arrays = uw.fit(data[:], seeds=1, **QUICK)
    assert torch.equal(found.fleet.parameters["encoder"], arrays.fleet.parameters["encoder"])


def test_other_images_are_another_fit(kept, data):
    other = uw.data.load(255 - data[:], name="small")
    with pytest.raises(FitError, check=about(kept[1], (4, 3))):
        uw.fit(other, seeds=2, out=kept[1], **QUICK)


def test_invalid_arguments_are_errors(data):
    few = uw.data.load(data[:63] / 255, name="few")
    with pytest.raises(DataError, check=about("data", 63)):
        uw.fit(few, **QUICK)
    with pytest.raises(FitError, check=about("steps", 0)):
        uw.fit(data, **{**QUICK, "steps": 0})
    for seeds, word in ((0, "seeds"), ([3, 3], "runs")):
        with pytest.raises(UnweaveError, match=word):
            uw.fit(data, seeds=seeds, **QUICK)
    for minutes in (-1, 0, math.nan, math.inf, 1e300):
        with pytest.raises(FitError, check=lambda error: error.subject == "minutes"):
            uw.fit(data, minutes=minutes, seeds=1, progress=False)
    with pytest.raises(UnweaveError, match="seeds"):
        uw.fit(data, seeds=10**30, **QUICK)


def test_a_folder_that_cannot_be_written_is_found_before_any_step(data, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file")
    for name, place, there in (
        ("taken/fit", "taken", FILE),
        ("x" * 300, "x" * 300, errno.ENAMETOOLONG),
    ):
        with pytest.raises(DataError, check=about(tmp_path / place, there)):
            uw.fit(data, seeds=1, progress=False, out=tmp_path / name)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**6))
    with pytest.raises(DataError, check=about(tmp_path / "full" / "runs", 10**6)):
        uw.fit(data, seeds=1, out=tmp_path / "full", **QUICK)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_folder_is_loaded_as_the_error_about_it_says(data, tmp_path):
    for place, image in enumerate(data[:64]):
        grey = Image.fromarray(image[..., 0])
        (grey.convert("RGB") if place % 2 else grey).save(tmp_path / f"{place:02}.png")
    with pytest.raises(DataError, match="channels=3"):
        uw.fit(tmp_path, **QUICK)
    found = uw.fit(tmp_path, channels=3, size=32, seeds=1, **QUICK)
    assert found.fleet.shape == (32, 32, 3)
    with pytest.raises(DataError, match="channels"):
        uw.fit(data, channels=3, **QUICK)


@pytest.mark.parametrize("name", ["beta_vae", "Beta-VAE"])
def test_the_default_method_can_be_named(name, kept, data):
    found = uw.fit(data, name, seeds=2, **QUICK)
    assert found.fleet.configs == kept[0].fleet.configs


def test_other_methods_have_their_usual_values_by_name(data):
    (config,) = uw.fit(data, "factor-vae", seeds=1, **QUICK).fleet.configs
    assert config.method == uw.methods.FactorVAE()
    with pytest.raises(UnknownNameError):
        uw.fit(data, "beta_va", **QUICK)


def test_the_learning_rate_is_that_of_adam(data):
    usual = uw.fit(data, "vae", seeds=1, **QUICK).fleet.configs[0]
    assert usual.optimiser == uw.Adam(lr=1e-3)
    for settings in ({"learning_rate": 0.01}, {"optimiser": uw.Adam(lr=0.01)}):
        config = uw.fit(data, "vae", seeds=1, **settings, **QUICK).fleet.configs[0]
        assert config.optimiser == uw.Adam(lr=0.01)
