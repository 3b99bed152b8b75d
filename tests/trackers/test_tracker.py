"""What trackers share: names of series, values without NaN, extras that are not installed."""

import sys

import pytest

import unweave as uw
from tests.trackers.fleets import BETAS, FIRST, SECOND
from unweave.errors import UnweaveError
from unweave.trackers.tracker import series_name


class Listed(uw.trackers.Tracker):
    def __init__(self):
        super().__init__()
        self.opened, self.points, self.ends = [], [], []

    def open(self, models):
        self.opened.append(models)

    def log(self, step, values):
        self.points.append((step, values))

    def close(self, finished):
        self.ends.append(finished)


def test_every_model_is_opened_once_with_its_settings(track):
    tracker = Listed()
    track(tracker)
    first, second = tracker.opened
    assert list(first) == FIRST
    assert list(second) == SECOND
    assert first[FIRST[2]] == {
        "run": BETAS[2].hash,
        "method": "beta_vae",
        "seed": 0,
        "beta": 4.0,
    }
    assert "beta" not in second[SECOND[0]]
    assert tracker.ends == [True]


def test_values_are_those_of_the_tables_without_nan(track):
    tracker = Listed()
    expected, found = track(tracker), {}
    for step, values in tracker.points:
        for series, named in values.items():
            for name, value in named.items():
                found.setdefault(series, {}).setdefault(name, []).append((step, value))
    assert found == expected
    assert [step for step, _ in found[FIRST[1]]["loss"]] == [100]


def test_a_tracker_can_be_used_again(track):
    tracker = Listed()
    track(tracker)
    track(tracker, None)
    assert len(tracker.opened) == 4
    assert tracker.ends == [True, False]


def test_a_tracker_without_any_table_is_not_closed():
    tracker = Listed()
    tracker.on_end(None)
    assert tracker.ends == []


def test_names_of_series_are_unique_for_equal_settings():
    one = series_name("1cd63c2cb2d8b54c", "dip_vae_i", 3, lambda_od=0.1, d_factor=1e-7)
    assert one == "dip_vae_i-lambda_od0.1-d_factor1e-07-seed3-1cd63c2c"
    assert one != series_name("2cd63c2cb2d8b54c", "dip_vae_i", 3, lambda_od=0.1, d_factor=1e-7)


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [
        (uw.trackers.TensorBoard, "tensorboard", "tensorboard"),
        (uw.trackers.WandB, "wandb", "wandb"),
        (uw.trackers.MLflow, "mlflow", "mlflow"),
    ],
)
def test_a_missing_extra_is_an_error_before_training(monkeypatch, kind, module, extra):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnweaveError, match=f"pip install 'unweave\\[{extra}\\]'") as caught:
        kind()
    assert caught.value.subject == extra
