"""The plan of a fit: how rounds share steps and time, and manifests of rounds."""

import json

import pytest

from tests.raising import about
from unweave.fitting import FitError, Plan
from unweave.methods import VAE
from unweave.models.config import Config
from unweave.models.lineage import lineage

RUNS = [Config(method=VAE(), seed=seed, steps=8) for seed in range(4)]
NAMES = [lineage(run) for run in RUNS]


def plan(**changes):
    return Plan(**{"models": NAMES, "precision": "float32", "steps": 8, "minutes": 1, **changes})


def test_steps_double_from_round_to_round():
    kept = [[], [NAMES[:2]], [NAMES[:2], NAMES[:1]]]
    assert [plan(rounds=3, kept=each).round_steps for each in kept] == [2, 4, 8]
    assert plan(rounds=3, steps=1).round_steps == 1
    assert plan(rounds=3, steps=None).round_steps is None
    assert plan(rounds=3, kept=kept[2]).current == NAMES[:1]


def test_rounds_share_the_time_that_is_left():
    assert plan(rounds=3).seconds_left == pytest.approx((60 - 15) / 3)
    assert plan(rounds=3, seconds=30.0).seconds_left == pytest.approx((60 - 15 - 30) / 3)
    assert plan(rounds=3, seconds=30.0, kept=[NAMES[:2]] * 2).seconds_left == pytest.approx(15)
    assert plan(rounds=1, minutes=60).seconds_left == pytest.approx(3_600 - 20)
    assert 0 < plan(seconds=100.0).seconds_left < 0.01
    assert plan(minutes=None).seconds_left is None


def test_rounds_are_recorded(tmp_path):
    written = plan(rounds=3, kept=[NAMES[:3], NAMES[1:2]], seconds=2.5)
    written.write(tmp_path, verdict={"level": "weak"})
    assert Plan.read(tmp_path / "fit.json", RUNS) == written


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 0},
        {"rounds": True},
        {"rounds": 1_000},
        {"kept": [NAMES[:1]] * 3},
        {"kept": [["0123456789abcdef"]]},
        {"kept": [NAMES[:1], NAMES[:2]]},
        {"kept": [[]]},
        {"kept": {}},
    ],
)
def test_impossible_rounds_are_errors(tmp_path, change):
    file = tmp_path / "fit.json"
    plan(rounds=3).write(tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(FitError, check=about(file)):
        Plan.read(file, RUNS)
