"""The commands in a report train the same models and load the chosen one."""

import shlex

import numpy as np
import pytest

import unweave as uw
from unweave.report.reproduction import load_code, train_code
from unweave.report.subject import opened

FEW = {"steps": 2, "batch": 8, "latents": 3, "progress": False}


def folders(place):
    return {folder.name for folder in place.iterdir() if folder.is_dir()}


def test_python_code_trains_the_same_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = uw.data.load("dsprites").slice(scale=5, orientation=0, posX=[0, 9], posY=range(4))
    uw.train(uw.methods.BetaTCVAE(beta=[1, 4]), data, seeds=[1, 4], out="some runs", **FEW)
    uw.train(uw.methods.VAE(), data, out="some runs", optimiser=uw.Adam(lr=1e-3), **FEW)
    ((step, code),) = train_code(opened("some runs"))
    assert step == "In Python:"
    before = folders(tmp_path / "some runs")
    (tmp_path / "some runs").rename(tmp_path / "moved")
    exec(code.replace("steps=2", "steps=2, progress=False"))
    assert folders(tmp_path / "some runs") == before
    assert len(before) == 5


def test_a_command_names_every_run(tmp_path, start):
    data = uw.data.load("dsprites")
    configs = uw.train(
        uw.methods.BetaVAE(beta=[1, 0.5]), data, seeds=[2, 3], **{**FEW, "steps": 0}
    )
    ((step, command),) = train_code(opened(configs, data))
    assert step == "On the command line:"
    assert shlex.split(command)[:6] == [
        "unweave",
        "train",
        "dsprites",
        "beta-vae",
        "--beta",
        "0.5",
    ]
    done = start(*shlex.split(command)[1:], "--no-pictures", cwd=tmp_path)
    assert done.wait() == 0, done.stderr
    assert folders(tmp_path / "runs") == {config.hash for config in configs.configs}


def test_runs_that_do_not_form_a_grid_need_several_calls(fleet, data):
    from unweave.models.model import join

    part = join([fleet[0], fleet[1], fleet[5]])
    ((_, code),) = train_code(opened(part, data))
    assert code.count("uw.train(") == 2
    assert "beta=1.0), data, seeds=2" in code
    assert "seeds=[2]" in code


def test_a_study_is_its_file_and_its_command(study):
    (_, text), (_, command) = train_code(opened(study))
    again = uw.study.Study.from_dict(__import__("yaml").safe_load(text))
    assert {c.hash for c in again.runs()} == set(uw.study.load(study).table["run"])
    assert shlex.split(command) == ["unweave", "study", "run", "study.yaml", "--out", str(study)]


def test_the_code_loads_the_model(runs, data):
    given = opened(runs, data)
    run = given.table["run"][1]
    scope = {"images": data[:3]}
    exec(load_code(given, run), scope)
    np.testing.assert_array_equal(scope["mean"], uw.load(runs / run).encode(data[:3])[0])
    assert scope["reconstructions"].shape == (3, 32, 32, 1)
    with pytest.raises(KeyError):
        load_code(given, "nobody")


def test_a_model_of_a_remote_study_is_loaded_from_its_download(study, data):
    given = opened(f"file://{study}")
    run = given.table["run"][0]
    given.model(run)
    scope = {"images": data[:3]}
    exec(load_code(given, run), scope)
    np.testing.assert_array_equal(scope["mean"], uw.load(study / "runs" / run).encode(data[:3])[0])
