"""`uw.fit`: what is trained and saved, and how a fit is resumed."""

import errno
import json
import math
import shutil
import time
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import unweave as uw
from tests.pages import Page
from tests.raising import about
from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.fitting import FitError, Plan, rounds
from unweave.fleet.engine import Engine
from unweave.io.paths import FILE
from unweave.models.lineage import lineage
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
    return uw.fit(data, "beta-vae", seeds=2, out=folder, **QUICK), folder


def weights(fit):
    return {model.config.hash: model.parameters["encoder"] for model in fit.fleet}


def test_models_have_all_strengths_and_seeds(kept):
    found, _ = kept
    assert [(c.method.beta, c.seed) for c in found.fleet.configs] == [
        (1, 0),
        (1, 1),
        (4, 0),
        (4, 1),
    ]
    assert found.best.config.hash == found.ranking["run"][0]


def test_a_fit_in_a_notebook_shows_verdict_choice_and_ranking(kept):
    found, _ = kept
    page = Page(found._repr_html_())
    assert page.texts[0] == f"{found.verdict.level.capitalize()} fit"
    assert page.texts[1] == found.verdict.reasons[0]
    assert str(found) == f"{found.verdict}\n{found._chosen}"
    assert found._chosen in page.texts
    _, *rows = page.rows
    assert len(rows) == 4
    assert rows[0][0] == repr(found.best)
    assert [row[1] for row in rows] == [f"{one:.2f}" for one in found.ranking["agreement"]]
    shorter = replace(found, ranking=pd.concat([found.ranking] * 2))
    assert Page(shorter._repr_html_()).texts[-1] == "3 more models: fit.ranking"


def test_members_are_those_that_train_gives(kept, data):
    method, adam = uw.methods.BetaVAE(beta=[1, 4]), uw.Adam(lr=1e-3)
    precision = kept[0].best.config.precision
    settings = {"optimiser": adam, "precision": precision, "init": "he"}
    settings |= {"likelihood": "learned_gaussian", "architecture": "broadcast"}
    fleet = uw.train(method, data, seeds=2, **settings, **QUICK)
    assert torch.equal(fleet.parameters["decoder"], kept[0].fleet.parameters["decoder"])


def test_repeating_a_fit_trains_nothing(kept, data):
    found, folder = kept
    files = sorted(folder.glob("runs/*/weights.safetensors"))
    written = [file.stat().st_mtime_ns for file in files]
    again = uw.fit(data, "beta-vae", seeds=2, out=folder, **QUICK)
    assert [file.stat().st_mtime_ns for file in files] == written
    assert again.ranking.equals(found.ranking)


def test_without_steps_a_fit_resumes_with_its_recorded_steps(kept, data, tmp_path):
    _, folder = kept
    quick = {name: value for name, value in QUICK.items() if name != "steps"}
    assert uw.fit(data, "beta-vae", seeds=2, out=folder, **quick).best.config.steps == 3


def test_a_fit_resumes_with_its_recorded_precision(data, tmp_path):
    usual = faster_precision(torch.device("cpu"))
    other = {"bf16": "float32", "float32": "bf16"}[usual]
    assert uw.fit(data, "beta-vae", seeds=1, **QUICK).best.config.precision == usual
    uw.fit(data, "beta-vae", seeds=1, out=tmp_path, precision=other, **QUICK)
    assert uw.fit(data, "beta-vae", seeds=1, out=tmp_path, **QUICK).best.config.precision == other


def test_dense_networks_are_fitted_in_float32(data):
    found = uw.fit(data, "beta-vae", seeds=1, architecture="small_mlp", **QUICK)
    assert {config.precision for config in found.fleet.configs} == {"float32"}


def test_manifests_without_a_precision_are_those_of_float32(data, tmp_path):
    uw.fit(data, "beta-vae", seeds=1, out=tmp_path, precision="float32", **QUICK)
    manifest = tmp_path / "fit.json"
    content = json.loads(manifest.read_text())
    del content["precision"]
    manifest.write_text(json.dumps(content))
    assert (
        uw.fit(data, "beta-vae", seeds=1, out=tmp_path, **QUICK).best.config.precision == "float32"
    )


def test_a_deleted_run_is_trained_again(data, tmp_path):
    first = uw.fit(data, "beta-vae", seeds=2, out=tmp_path, **QUICK)
    gone = tmp_path / "runs" / first.fleet.configs[2].hash
    for file in gone.iterdir():
        file.unlink()
    gone.rmdir()
    second = uw.fit(data, "beta-vae", seeds=2, out=tmp_path, **QUICK)
    assert gone.exists()
    for run, buffer in weights(first).items():
        torch.testing.assert_close(weights(second)[run], buffer)


@pytest.mark.parametrize(
    "other", [{"seeds": 3}, {"seeds": 2, "steps": 2}, {"seeds": 2, "batch": 5}]
)
def test_another_fit_in_the_same_folder_is_an_error(kept, data, other):
    with pytest.raises(FitError, check=about(kept[1], (4, 3))):
        uw.fit(data, "beta-vae", out=kept[1], **{**QUICK, **other})


def test_a_damaged_manifest_is_an_error(data, tmp_path):
    (tmp_path / "fit.json").write_text("{")
    with pytest.raises(FitError, check=about(tmp_path / "fit.json")):
        uw.fit(data, "beta-vae", seeds=2, out=tmp_path, **QUICK)


@dataclass(frozen=True, kw_only=True)
class Slow(uw.methods.VAE):
    """A VAE whose steps take a given time."""

    name = "slow"
    seconds: float = 0.03

    def regularizer(self, elbo, batch):
        time.sleep(self.seconds)
        return super().regularizer(elbo, batch)


LIMITED = {"batch": 4, "latents": 3, "architecture": "small_mlp", "seeds": 2, "progress": False}


def manifest(folder):
    return json.loads((folder / "fit.json").read_text())


def folders(folder):
    return sorted(path.name for path in (folder / "runs").iterdir())


def test_a_fit_ends_at_its_deadline_and_continues_with_more_minutes(data, tmp_path, capsys):
    found = uw.fit(data, Slow(), minutes=2 / 60, out=tmp_path, **{**LIMITED, "progress": True})
    assert manifest(tmp_path)["seconds"] < 4  # it aims at 1.5; busy machines are slower
    (steps,) = {config.steps for config in found.fleet.configs}
    assert 1 < steps < 50
    assert f"Only {steps} steps" in capsys.readouterr().err
    assert folders(tmp_path) == sorted(config.hash for config in found.fleet.configs)
    for minutes in (None, 2 / 60, 1 / 60):  # the time has been used
        again = uw.fit(data, Slow(), minutes=minutes, out=tmp_path, **LIMITED)
        assert again.fleet.configs == found.fleet.configs
    more = uw.fit(data, Slow(), minutes=4 / 60, out=tmp_path, **LIMITED)
    longer = more.fleet.configs[0].steps
    assert longer > steps
    assert folders(tmp_path) == sorted(config.hash for config in more.fleet.configs)
    exact = uw.fit(data, Slow(), steps=longer + 2, out=tmp_path, **LIMITED)
    whole = uw.fit(data, Slow(), steps=longer + 2, **LIMITED)
    assert torch.equal(exact.fleet.parameters["encoder"], whole.fleet.parameters["encoder"])
    assert (tmp_path / "runs" / exact.best.config.hash / "optimiser.safetensors").exists()
    with pytest.raises(FitError, check=about(tmp_path, (2, longer + 2))):
        uw.fit(data, Slow(), steps=longer, out=tmp_path, **LIMITED)


def test_a_killed_fit_uses_the_time_that_is_left(data, tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "RECORD_SECONDS", 0.1)

    class Killed(BaseException):
        """Simulated power failure."""

    advance, taken = Engine.advance, []

    def advance_until_killed(engine, steps):
        taken.append(engine.configs)
        if engine.configs != taken[0]:  # the second fleet
            raise Killed
        advance(engine, steps)

    settings = {"minutes": 4 / 60, "out": tmp_path, "fleet_size": 1, **LIMITED}
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "advance", advance_until_killed)
        with pytest.raises(Killed):
            uw.fit(data, Slow(), **settings)
    spent = manifest(tmp_path)["seconds"]
    assert 0.1 < spent < 3
    found = uw.fit(data, Slow(), **settings)
    assert manifest(tmp_path)["finished"]
    assert spent < manifest(tmp_path)["seconds"] < 4
    steps = [config.steps for config in found.fleet.configs]
    assert max(steps) <= 4 * min(steps)


def test_fleets_left_behind_catch_up_first(data, tmp_path):
    (first, second) = uw.train(
        Slow(),
        data,
        steps=9,
        learning_rate=1e-3,
        init="he",
        likelihood="learned_gaussian",
        precision=faster_precision(torch.device("cpu")),
        out=tmp_path / "runs",
        keep_optimiser=True,
        **LIMITED,
    ).configs
    shutil.rmtree(tmp_path / "runs" / second.hash)
    plan = Plan([lineage(first), lineage(second)], first.precision, None, 3 / 60, 1.0)
    plan.write(tmp_path)
    found = uw.fit(data, Slow(), out=tmp_path, **LIMITED)
    steps = [config.steps for config in found.fleet.configs]
    assert min(steps) >= 9
    assert max(steps) <= 4 * min(steps)  # the machine may be busy


def test_manifests_of_earlier_versions_are_resumed(data, tmp_path):
    found = uw.fit(data, "vae", out=tmp_path, precision="float32", **{**LIMITED, "steps": 2})
    runs = [config.hash for config in found.fleet.configs]
    (tmp_path / "fit.json").write_text(json.dumps({"steps": 2, "runs": runs}))
    assert uw.fit(data, "vae", out=tmp_path, **LIMITED).fleet.configs == found.fleet.configs
    (tmp_path / "fit.json").write_text(json.dumps({"steps": 2, "runs": runs[:1]}))
    with pytest.raises(FitError, check=about(tmp_path, (1, 2))):
        uw.fit(data, "vae", out=tmp_path, **LIMITED)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", "4"),
        ("steps", 0),
        ("minutes", -1),
        ("seconds", "1"),
        ("seconds", -1.0),
        ("finished", 1),
        ("models", {}),
    ],
)
def test_impossible_manifests_are_errors(kept, data, tmp_path, name, value):
    content = manifest(kept[1]) | {name: value}
    (tmp_path / "fit.json").write_text(json.dumps(content))
    with pytest.raises(FitError, check=about(tmp_path / "fit.json")):
        uw.fit(data, "beta-vae", seeds=2, out=tmp_path, **QUICK)


def test_a_single_model_is_chosen(data):
    method = uw.methods.BetaVAE(beta=2)
    found = uw.fit(data, method, seeds=1, **QUICK)
    assert found.best.config.method == method
    assert found.ranking["score"].isna().all()


def test_models_that_diverge_are_not_chosen_and_all_of_them_are_an_error(data):
    adam = uw.Adam(lr=1e18)
    with pytest.raises(FitError, check=about("fleet")):
        uw.fit(data, "beta-vae", seeds=1, optimiser=adam, **{**QUICK, "steps": 8})
    healthy = uw.fit(data, uw.methods.BetaVAE(beta=[1, 1e38]), seeds=1, **{**QUICK, "steps": 8})
    assert healthy.fleet.diverged_at[1] >= 0
    assert healthy.best.config.method.beta == 1


def test_methods_that_cannot_share_a_fleet_share_the_time(data, capsys):
    method = uw.methods.BetaTCVAE(beta=2, estimator=["minibatch", "weighted"])
    settings = {"batch": 2, "latents": 2, "architecture": "small_mlp"}
    found = uw.fit(data, method, seeds=1, minutes=2 / 60, **settings)
    assert [config.method.estimator for config in found.fleet.configs] == ["minibatch", "weighted"]
    assert min(config.steps for config in found.fleet.configs) > 1
    assert "Training 2 models" in capsys.readouterr().err


def test_everything_that_can_be_loaded_can_be_fitted(data, tmp_path):
    np.save(tmp_path / "small.npy", data[:])
    found = uw.fit(tmp_path / "small.npy", "beta-vae", seeds=1, **QUICK)
    arrays = uw.fit(data[:], "beta-vae", seeds=1, **QUICK)
    assert torch.equal(found.fleet.parameters["encoder"], arrays.fleet.parameters["encoder"])


def test_other_images_are_another_fit(kept, data):
    other = uw.data.load(255 - data[:], name="small")
    with pytest.raises(FitError, check=about(kept[1], (4, 3))):
        uw.fit(other, "beta-vae", seeds=2, out=kept[1], **QUICK)


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
    found = uw.fit(tmp_path, "beta-vae", channels=3, size=32, seeds=1, **QUICK)
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
