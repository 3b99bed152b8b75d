"""The model index: contents, order and damaged runs."""

import pytest

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import PROTOCOL, Key, Outcome, add_to_cache, origin_text
from unweave.explorer.model_index import entries_of


def names(entries):
    return [(e.config.method.name, getattr(e.config.method, "beta", None)) for e in entries]


def test_runs_are_sorted_with_damaged_ones_last(runs):
    entries = entries_of(runs)
    assert names(entries) == [("beta_vae", 1), ("beta_vae", 4), ("vae", None), ("vae", None)]
    assert [bool(entry.trouble) for entry in entries] == [False, False, False, True]
    assert "weights.safetensors" in entries[3].trouble
    with pytest.raises(UnweaveError, check=about(entries[3].name)):
        entries[3].open()
    assert entries[0].open().config == entries[0].config


def test_a_model_that_was_never_trained_has_a_warning(runs, raw):
    assert "never trained" in entries_of(runs)[2].warning
    assert "never trained" in entries_of(raw)[0].warning
    assert entries_of(runs)[0].warning == ""


def test_a_model_that_diverged_has_a_warning(fleet, tmp_path):
    diverged = uw.Model(
        fleet[0].configs,
        fleet.shape,
        fleet[0].parameters,
        fleet[0].curve,
        fleet[0].diverged_at + 8,
    )
    assert "diverged at step 7" in entries_of(diverged)[0].warning
    diverged.save(tmp_path / "diverged")
    assert "diverged at step 7" in entries_of(tmp_path / "diverged")[0].warning


def test_the_best_comes_first_and_once(fleet, tmp_path):
    fleet.save(tmp_path / "runs")
    fleet[1].save(tmp_path / "best")
    entries = entries_of(tmp_path)
    assert [entry.name for entry in entries] == [fleet.configs[1].hash, fleet.configs[0].hash]
    assert [entry.best for entry in entries] == [True, False]


def test_scores_of_mean_codes_on_the_own_data_are_read(fleet, tmp_path):
    folder = fleet[0].save(tmp_path / "run")
    own = origin_text(fleet.configs[0].data)
    add_to_cache(
        folder,
        {
            Key("mig", "mean", 0, own): Outcome({"mig": 0.25, "mig.part": 1.0}),
            Key("sap", "sampled", 0, own): Outcome({"sap": 0.5}),
            Key("dci", "mean", 0, origin_text([["load", "rooms3d", {}]])): Outcome({"dci": 0.5}),
            Key("irs", "mean", 0, own, PROTOCOL - 1): Outcome({"irs": 0.5}),  # computed otherwise
            Key("mig", "mean", 3, own): Outcome({"mig": 0.75}),
        },
    )
    assert entries_of(folder)[0].scores == {"mig": 0.25}


def test_the_best_model_has_the_scores_of_its_original(fleet, tmp_path):
    runs = fleet.save(tmp_path / "runs")
    fleet[1].save(tmp_path / "best")
    own = origin_text(fleet.configs[1].data)
    add_to_cache(runs[1], {Key("mig", "mean", 0, own): Outcome({"mig": 0.25})})
    best, other = entries_of(tmp_path)
    assert (best.best, best.scores) == (True, {"mig": 0.25})
    assert (other.best, other.scores) == (False, {})
    (tmp_path / "best" / "weights.safetensors").unlink()
    best, _ = entries_of(tmp_path)
    assert (best.best, best.trouble, best.run.folder) == (True, "", runs[1])


def test_runs_of_a_damaged_study_are_listed(tmp_path):
    study = uw.study.Study.from_dict(
        {
            "name": "small",
            "data": [
                {"load": "dsprites", "slice": {"scale": [5], "orientation": [0], "posX": [3]}}
            ],
            "methods": {"beta_vae": {"beta": [1, 4]}},
            "seeds": 1,
            "steps": 1,
            "metrics": [],
            "settings": {"batch": 4, "latents": 2},
        }
    )
    uw.study.run(study, tmp_path / "small")
    entries = entries_of(tmp_path / "small")
    assert names(entries) == [("beta_vae", 1), ("beta_vae", 4)]
    (tmp_path / "small" / "study.json").write_text("{")
    assert names(entries_of(tmp_path / "small")) == names(entries)


def test_fleets_folders_and_lists_are_accepted(fleet, tmp_path):
    fleet[0].save(tmp_path / "one")
    assert len(entries_of([fleet, tmp_path / "one"])) == 2
    assert entries_of(fleet[1])[0].open() is not None


def test_sources_without_models_are_errors(raw, tmp_path, resettled):
    with pytest.raises(UnweaveError, match="nowhere"):
        entries_of(tmp_path / "nowhere")
    with pytest.raises(UnweaveError, match=str(tmp_path)):
        entries_of(tmp_path)
    with pytest.raises(UnweaveError):
        entries_of([])
    with pytest.raises(UnweaveError, match="s3://there"):
        entries_of("s3://there")
    folder = raw.save(tmp_path / "run")
    (folder / "weights.safetensors").unlink()
    with pytest.raises(UnweaveError, match=r"weights\.safetensors"):
        entries_of(folder)
    resettled(folder, {"method": {"name": "no_such"}})
    with pytest.raises(UnweaveError, match="no_such"):
        entries_of(folder)
