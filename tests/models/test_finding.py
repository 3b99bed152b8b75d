"""Models are found wherever they are, and nothing is loaded to list them."""

import shutil

import pytest

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.models.finding import find_runs, models_of, one_model, runs_of


@pytest.fixture(scope="module")
def sprites():
    return uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=3)


@pytest.fixture(scope="module")
def fleet(sprites):
    method = uw.methods.BetaVAE(beta=[1, 4])
    settings = {"batch": 4, "latents": 2, "progress": False}
    return uw.train(method, sprites, seeds=2, steps=1, **settings)


@pytest.fixture
def runs(fleet, tmp_path):
    fleet.save(tmp_path / "fit" / "runs")
    return tmp_path / "fit" / "runs"


@pytest.fixture
def fit(fleet, runs):
    """A folder with runs and a copy of the second one as the best."""
    fleet[1].save(runs.parent / "best")
    return runs.parent


def hashes(models):
    return [run.model.config.hash for run in runs_of(models)]


def test_fleets_models_folders_and_lists_of_them(fleet, runs):
    all_of_them = [config.hash for config in fleet.configs]
    assert hashes(fleet) == all_of_them
    assert hashes(fleet[1]) == all_of_them[1:2]
    assert hashes(runs) == hashes(str(runs)) == hashes(runs.parent) == sorted(all_of_them)
    assert hashes([fleet[2], [runs / all_of_them[0]]]) == [all_of_them[2], all_of_them[0]]


def test_folders_that_match_a_pattern(fleet, runs, monkeypatch):
    name = min(config.hash for config in fleet.configs)
    assert hashes(str(runs / f"{name[:6]}*")) == [name]
    monkeypatch.chdir(runs.parent)
    assert hashes(f"runs/{name[:6]}?*") == [name]
    assert len(runs_of("run*")) == 4


def test_the_copy_of_the_best_is_listed_and_counted_once(fleet, fit):
    chosen = fleet.configs[1].hash
    listed = find_runs(fit)
    assert [run.best for run in listed] == [True, False, False, False, False]
    assert listed[0].config.hash == chosen
    assert hashes(fit) == sorted(config.hash for config in fleet.configs)
    assert [model.config.hash for model in models_of(fit, chosen=True)] == [chosen]
    assert one_model(fit).config.hash == chosen
    shutil.rmtree(fit / "runs")
    assert hashes(fit) == [chosen]


def test_a_study_and_its_results(tmp_path, sprites):
    study = uw.study.Study.from_dict(
        {
            "name": "small",
            "data": [{"load": "dsprites", "slice": {"scale": [5], "orientation": [0]}}],
            "methods": {"beta_vae": {"beta": [1, 4]}},
            "seeds": 1,
            "steps": 1,
            "metrics": [],
            "settings": {"batch": 4, "latents": 2},
        }
    )
    results = uw.study.run(study, tmp_path / "small")
    assert sorted(hashes(results)) == hashes(tmp_path / "small")
    assert set(hashes(results)) == set(results.table["run"])
    assert len(uw.evaluate(results, sprites, metrics=["active_units"], progress=False)) == 2


def test_listing_runs_loads_nothing_and_reports_damage(fleet, runs):
    first, second, *others = sorted(runs.iterdir())
    (first / "config.json").unlink()
    (second / "weights.safetensors").write_bytes(b"broken")
    found = find_runs(runs)
    assert [run.folder for run in found] == [first, second, *others]
    assert [bool(run.damage) for run in found] == [True, True, False, False]
    assert found[1].config.hash == second.name
    for run in found[:2]:
        with pytest.raises(UnweaveError):
            _ = run.model
    with pytest.raises(UnweaveError, check=about(first)):
        uw.evaluate(runs, metrics=["active_units"], progress=False)


def test_a_folder_is_counted_once(fleet, runs):
    name = fleet.configs[3].hash
    assert len(runs_of([runs, runs / name, runs / ".." / "runs" / name])) == 4


def test_runs_that_are_being_written_are_not_read(runs):
    half = runs / ".half"
    half.mkdir()
    (half / "config.json").write_text("{")
    assert len(runs_of(runs)) == 4


def test_one_model_of_several_must_be_named(runs):
    with pytest.raises(UnweaveError, check=about(runs)):
        one_model(runs)
    shutil.copytree(min(runs.iterdir()), runs.parent.parent / "only" / "run")
    assert one_model(runs.parent.parent / "only").config.hash == min(runs.iterdir()).name


@pytest.mark.parametrize("place", ["nowhere", "", "no*", "s3://there/runs", "bad\0name"])
def test_folders_without_models_raise_errors(tmp_path, place):
    with pytest.raises(UnweaveError):
        runs_of(place if "://" in place else f"{tmp_path}/{place}")


def test_no_model_at_all():
    with pytest.raises(UnweaveError):
        runs_of([])
