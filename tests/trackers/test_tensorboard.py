"""Event files, read by TensorBoard."""

import errno

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from tests.raising import about
from tests.trackers.fleets import BETAS, FIRST, SECOND
from unweave.errors import DataError
from unweave.trackers import TensorBoard


def accumulated(folder):
    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def test_each_model_is_a_run_with_its_values(track, tmp_path):
    expected = track(TensorBoard(tmp_path / "logs"))
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {*FIRST, *SECOND}
    for series, named in expected.items():
        found = accumulated(tmp_path / "logs" / series)
        assert set(found.Tags()["scalars"]) == set(named)
        for name, points in named.items():
            assert [(one.step, one.value) for one in found.Scalars(name)] == points


def test_settings_are_hyperparameters(track, tmp_path):
    track(TensorBoard(tmp_path))
    found = accumulated(tmp_path / FIRST[2])
    content = found.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    assert settings["method"].string_value == "beta_vae"
    assert settings["beta"].number_value == 4
    assert settings["seed"].number_value == BETAS[2].seed
    assert len(settings) == 3


def test_a_second_call_adds_files_to_the_same_folders(track, tmp_path):
    tracker = TensorBoard(tmp_path)
    track(tracker)
    track(tracker)
    assert len(list((tmp_path / SECOND[0]).iterdir())) == 2


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "logs").write_text("a file")
    tracker = TensorBoard(tmp_path / "logs")
    with pytest.raises(DataError, check=about(tmp_path / "logs", errno.ENOTDIR)):
        tracker.open({"vae-seed0-1cd63c2c": {"run": "1cd63c2cb2d8b54c", "seed": 0}})
