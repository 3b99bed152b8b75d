"""Models are found wherever they are."""

import pytest

from unweave.errors import UnweaveError
from unweave.models.finding import runs_of


def hashes(models):
    return [run.model.config.hash for run in runs_of(models)]


def test_fleets_models_folders_and_lists_of_them(fleet, runs):
    all_of_them = [config.hash for config in fleet.configs]
    assert hashes(fleet) == all_of_them
    assert hashes(fleet[1]) == all_of_them[1:2]
    assert hashes(runs) == hashes(str(runs)) == sorted(all_of_them)
    assert hashes([fleet[2], [runs / all_of_them[0]]]) == [all_of_them[2], all_of_them[0]]


def test_a_folder_is_counted_once(fleet, runs):
    name = fleet.configs[3].hash
    assert len(runs_of([runs, runs / name, runs / ".." / "runs" / name])) == 4


def test_runs_that_are_being_written_are_not_read(runs):
    half = runs / ".half"
    half.mkdir()
    (half / "config.json").write_text("{")
    assert len(runs_of(runs)) == 4


def test_where_there_is_no_model(tmp_path):
    with pytest.raises(UnweaveError, match="there is no folder"):
        runs_of(tmp_path / "nowhere")
    with pytest.raises(UnweaveError, match="holds no model and no folder of one"):
        runs_of(tmp_path)
    with pytest.raises(UnweaveError, match="no model was given"):
        runs_of([])
