"""Rounds of a fit: which models stop, what is saved, and how more time is used."""

import json
import time

import numpy as np
import pytest

import unweave as uw
from unweave.fitting.rounds import trained_steps
from unweave.methods import BetaVAE

QUICK = {"batch": 4, "latents": 3, "progress": False, "architecture": "small_mlp"}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return uw.data.load(rng.random((100, 16, 16)).round(), name="noise")


def steps_of(found):
    return sorted(config.steps for config in found.fleet.configs)


def test_half_of_the_models_stop_after_each_round_but_the_last(data, tmp_path):
    method = BetaVAE(beta=[1, 2, 4, 8])
    found = uw.fit(data, method, seeds=2, steps=8, rounds=3, out=tmp_path, **QUICK)
    assert steps_of(found) == [2, 2, 2, 2, 4, 4, 8, 8]
    assert found.best.config.steps == 8
    assert set(found.ranking["model"][:2]) == {
        place for place, config in enumerate(found.fleet.configs) if config.steps == 8
    }
    content = json.loads((tmp_path / "fit.json").read_text())
    assert [len(names) for names in content["kept"]] == [4, 2]
    assert trained_steps(found.fleet.configs, tmp_path / "runs") == [
        config.steps for config in found.fleet.configs
    ]
    assert len(list((tmp_path / "runs").iterdir())) == 8
    longer = uw.fit(data, method, seeds=2, steps=12, rounds=3, out=tmp_path, **QUICK)
    assert steps_of(longer) == [2, 2, 2, 2, 4, 4, 12, 12]


def test_without_a_folder_the_same_models_are_trained(data, tmp_path):
    method = BetaVAE(beta=[1, 4])
    saved = uw.fit(data, method, seeds=2, steps=8, rounds=2, out=tmp_path, **QUICK)
    found = uw.fit(data, method, seeds=2, steps=8, rounds=2, **QUICK)
    assert found.fleet.configs == saved.fleet.configs
    assert found.ranking.equals(saved.ranking)


def test_rounds_end_at_the_deadline(data, tmp_path):
    start = time.monotonic()
    found = uw.fit(data, minutes=6 / 60, out=tmp_path, **QUICK)
    assert time.monotonic() - start < 8
    content = json.loads((tmp_path / "fit.json").read_text())
    assert content["finished"]
    assert 2 < content["seconds"] < 6
    assert len(content["kept"]) == 2
    assert steps_of(found)[0] < steps_of(found)[-1]
    more = uw.fit(data, minutes=9 / 60, out=tmp_path, **QUICK)
    assert steps_of(more)[-1] > steps_of(found)[-1]


def test_rounds_without_time_leave_the_models_as_they_are(data, tmp_path):
    """The first round uses up all the time, as when the machine becomes busy."""
    uw.fit(data, steps=8, rounds=3, out=tmp_path, **QUICK)
    file = tmp_path / "fit.json"
    content = json.loads(file.read_text())
    content |= {"kept": [], "finished": False, "steps": None, "minutes": 0.1, "seconds": 50.0}
    content.pop("verdict")
    file.write_text(json.dumps(content))
    found = uw.fit(data, out=tmp_path, **QUICK)
    assert steps_of(found)[-1] == 8
    assert json.loads(file.read_text())["finished"]
    assert found.verdict.level in ("failed", "weak")
