"""A fit: which model is chosen, what is kept, how it goes on."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import unweave as uw
from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.fitting import FEWEST_STEPS, FitError

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
    fleet = uw.train(method, data, seeds=2, optimiser=adam, **QUICK)
    assert torch.equal(fleet.parameters["decoder"], kept[0].fleet.parameters["decoder"])


def test_the_same_again_trains_nothing(kept, data):
    found, folder = kept
    files = sorted(folder.glob("runs/*/weights.safetensors"))
    written = [file.stat().st_mtime_ns for file in files]
    again = uw.fit(data, seeds=2, out=folder, **QUICK)
    assert [file.stat().st_mtime_ns for file in files] == written
    assert again.ranking.equals(found.ranking)


def test_without_steps_it_goes_on_with_those_that_were_chosen(kept, data, tmp_path):
    _, folder = kept
    quick = {name: value for name, value in QUICK.items() if name != "steps"}
    assert uw.fit(data, seeds=2, out=folder, **quick).best.config.steps == 3


def test_a_run_that_was_lost_is_trained_again(data, tmp_path):
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
def test_another_fit_does_not_mix_with_it(kept, data, other):
    with pytest.raises(FitError, match="holds another fit, of 4 models and 3 steps"):
        uw.fit(data, out=kept[1], **{**QUICK, **other})


def test_a_damaged_note_is_one_sentence(data, tmp_path):
    (tmp_path / "fit.json").write_text("{")
    with pytest.raises(FitError, match=r"fit\.json is damaged .*choose another folder"):
        uw.fit(data, seeds=2, out=tmp_path, **QUICK)


def test_steps_follow_from_minutes(data, tmp_path, capsys):
    settings = {"batch": 1, "latents": 2, "architecture": "small_mlp"}
    method = uw.methods.BetaVAE(beta=2)
    uw.fit(data, method, seeds=1, minutes=0.02, out=tmp_path, **settings)
    steps = json.loads((tmp_path / "fit.json").read_text())["steps"]
    said = capsys.readouterr().err
    milliseconds = float(said.split("take ")[1].split(" ms")[0])
    assert f"{steps:,} steps, about 1 min" in said
    # 1.2 s, to hundreds of steps; what was printed is rounded to milliseconds.
    most, least = 1200 / max(milliseconds - 0.5, 0.1), 1200 / (milliseconds + 0.5) - 100
    assert steps == FEWEST_STEPS or least <= steps <= most


def test_a_single_model_is_chosen_for_want_of_others(data):
    method = uw.methods.BetaVAE(beta=2)
    found = uw.fit(data, method, seeds=1, **QUICK)
    assert found.best.config.method == method
    assert found.ranking["score"].isna().all()


def test_models_that_diverge_are_not_chosen_and_all_of_them_are_an_error(data):
    adam = uw.Adam(lr=1e18)
    with pytest.raises(FitError, match="all models diverged; try a smaller learning rate"):
        uw.fit(data, seeds=1, optimiser=adam, **{**QUICK, "steps": 8})
    healthy = uw.fit(data, uw.methods.BetaVAE(beta=[1, 1e38]), seeds=1, **{**QUICK, "steps": 8})
    assert healthy.fleet.diverged_at[1] >= 0
    assert healthy.best.config.method.beta == 1


def test_methods_that_cannot_share_a_fleet_are_timed_apart(data, capsys):
    method = uw.methods.BetaTCVAE(beta=2, estimator=["minibatch", "weighted"])
    settings = {"batch": 2, "latents": 2, "architecture": "small_mlp"}
    found = uw.fit(data, method, seeds=1, minutes=0.001, **settings)
    assert [config.method.estimator for config in found.fleet.configs] == ["minibatch", "weighted"]
    assert found.best.config.steps == FEWEST_STEPS
    assert "2 models take" in capsys.readouterr().err


def test_anything_can_be_fitted_that_can_be_loaded(data, tmp_path):
    np.save(tmp_path / "small.npy", data[:])
    found = uw.fit(tmp_path / "small.npy", seeds=1, **QUICK)
    arrays = uw.fit(data[:], seeds=1, **QUICK)
    assert torch.equal(found.fleet.parameters["encoder"], arrays.fleet.parameters["encoder"])


def test_other_images_are_another_fit(kept, data):
    other = uw.data.load(255 - data[:], name="small")
    with pytest.raises(FitError, match=r"holds another fit.* of the same images to go on"):
        uw.fit(other, seeds=2, out=kept[1], **QUICK)


def test_nonsense_is_refused(data):
    few = uw.data.load(data[:63] / 255, name="few")
    with pytest.raises(DataError, match="few has 63 images, which is too few to learn from"):
        uw.fit(few, **QUICK)
    with pytest.raises(FitError, match="at least one step, but got steps=0"):
        uw.fit(data, **{**QUICK, "steps": 0})
    for seeds, sentence in ((0, "seeds must be"), ([3, 3], "runs are the same")):
        with pytest.raises(UnweaveError, match=sentence):
            uw.fit(data, seeds=seeds, **QUICK)
    for minutes in (-1, 0, math.nan, math.inf, 1e300):
        with pytest.raises(FitError, match="minutes must be above 0"):
            uw.fit(data, minutes=minutes, seeds=1, progress=False)
    with pytest.raises(UnweaveError, match="seeds must be"):
        uw.fit(data, seeds=10**30, **QUICK)


def test_a_folder_that_cannot_be_written_is_found_before_any_step(data, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file")
    for name, message in (("taken/fit", "is a file"), ("x" * 300, "too long")):
        with pytest.raises(DataError, match=message):
            uw.fit(data, seeds=1, progress=False, out=tmp_path / name)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**6))
    with pytest.raises(DataError, match=r"2 models need about .* GB are free"):
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
