"""Callbacks see what curves have, can stop training, and cannot lose it."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import unweave as uw
from unweave.errors import CallbackError, InterruptedTrainingError, UnweaveError
from unweave.fleet import loop
from unweave.fleet.callbacks import Callbacks, models_of
from unweave.fleet.checkpoint import checkpoints
from unweave.fleet.engine import Engine
from unweave.methods import AE, VAE, BetaVAE
from unweave.models.config import Config

SMALL = {"batch": 4, "architecture": "small_mlp", "progress": False}


@pytest.fixture(scope="module", autouse=True)
def short_windows():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "WINDOW", 2)
        yield


class Recorder(uw.trackers.Callback):
    """Keeps all tables; stops or fails in one of its methods."""

    def __init__(self, stop_in=None, fail_in=None, at=2):
        self.windows, self.diagnostics, self.results = [], [], []
        self.stop_in, self.fail_in, self.at = stop_in, fail_in, at

    def on_window(self, table):
        self.windows.append(table.copy())
        return self._act("on_window", table)

    def on_diagnostics(self, table):
        self.diagnostics.append(table.copy())
        return self._act("on_diagnostics", table)

    def on_end(self, result):
        self.results.append(result)
        return self._act("on_end", None)

    def _act(self, hook, table):
        if table is not None:
            step, table["step"] = table["step"].iloc[0], -1  # tables are copies
            if step != self.at:
                return None
        if hook == self.fail_in:
            raise KeyError("los")
        return np.bool_(hook == self.stop_in)


def same(one, other):
    assert one.configs == other.configs
    for name, values in one.parameters.items():
        torch.testing.assert_close(values, other.parameters[name], rtol=0, atol=0)
    pd.testing.assert_frame_equal(one.curve, other.curve)


def train(sprites, callbacks=None, steps=3, **options):
    method = BetaVAE(beta=[1, 4])
    return uw.train(method, sprites, seeds=2, steps=steps, callbacks=callbacks, **SMALL, **options)


@pytest.fixture(scope="module")
def plain(sprites):
    return train(sprites)


def test_tables_have_the_values_of_the_curve_and_the_settings_of_all_models(sprites, plain):
    seen = Recorder()
    fleet = train(sprites, [seen])
    same(fleet, plain)
    assert [set(table["step"]) for table in seen.windows] == [{2}, {3}]
    assert [set(table["step"]) for table in seen.diagnostics] == [{2}, {3}]
    assert seen.results == [fleet]
    for tables, names in (
        (seen.windows, ["loss", "reconstruction", "kl"]),
        (seen.diagnostics, [f"kl_{latent}" for latent in range(10)]),
    ):
        for table in tables:
            assert list(table) == ["run", "method", "seed", "beta", "step", *names]
            assert table["run"].tolist() == [config.hash for config in fleet.configs]
            assert table["method"].tolist() == ["beta_vae"] * 4
            assert table[["beta", "seed"]].values.tolist() == [[1, 0], [1, 1], [4, 0], [4, 1]]
            merged = table.merge(fleet.curve, on=["run", "step"], suffixes=("", "_curve"))
            assert len(merged) == 4
            for name in names:
                assert (merged[name] == merged[f"{name}_curve"]).all()


def test_models_of_several_methods_share_a_table():
    runs = [Config(method=BetaVAE(beta=2), seed=3), Config(method=VAE(), seed=1)]
    table = models_of(runs)
    assert list(table) == ["run", "method", "seed", "beta"]
    assert table["beta"].tolist()[0] == 2.0
    assert np.isnan(table["beta"][1])


def test_values_that_a_method_of_the_fleet_lacks_are_nan(sprites):
    settings = {"steps": 2, "batch": 4, "architecture": "small_mlp"}
    runs = [Config(method=method, **settings) for method in (BetaVAE(beta=2), AE())]
    seen = Recorder()
    calls = Callbacks(seen)
    make = partial(Engine, runs, sprites, "cpu")
    loop.train_fleet(make, None, False, 60.0, None, calls)
    (window,), (diagnostics,) = seen.windows, seen.diagnostics
    for table, names in ((window, ["beta", "kl"]), (diagnostics, ["beta", "kl_0"])):
        assert table["method"].tolist() == ["beta_vae", "ae"]
        assert table[names].notna().values.tolist() == [[True, True], [False, False]]
    assert window["loss"].notna().all()


def test_methods_without_diagnostics_have_no_table_of_them(sprites):
    seen = Recorder()
    uw.train(AE(), sprites, steps=2, callbacks=seen, **SMALL)
    assert [list(table)[-2:] for table in seen.windows] == [["loss", "reconstruction"]]
    assert seen.diagnostics == []


@pytest.mark.parametrize("hook", ["on_window", "on_diagnostics"])
def test_a_callback_stops_training_and_the_same_call_resumes(sprites, plain, tmp_path, hook):
    stops, other = Recorder(stop_in=hook), Recorder()
    with pytest.raises(InterruptedTrainingError) as caught:
        train(sprites, [stops, other], out=tmp_path)
    assert type(caught.value) is InterruptedTrainingError
    assert (caught.value.subject, caught.value.value) == ("step", 2)
    assert stops.results == other.results == [None]
    assert len(checkpoints(tmp_path)) == 1
    rest = Recorder()
    same(train(sprites, [rest], out=tmp_path), plain)
    assert [set(table["step"]) for table in rest.windows] == [{3}]


@pytest.mark.parametrize("hook", ["on_window", "on_diagnostics"])
def test_training_is_saved_when_a_callback_fails(sprites, plain, tmp_path, hook):
    fails, other = Recorder(fail_in=hook), Recorder()
    with pytest.raises(CallbackError, match=f"Recorder.{hook}.*KeyError.*los") as caught:
        train(sprites, [fails, other], out=tmp_path)
    error = caught.value
    assert isinstance(error.value, KeyError)
    assert error.__cause__ is error.value
    assert error.result is None
    assert fails.results == other.results == [None]
    assert len(other.windows) == len(other.diagnostics) == 1
    assert len(checkpoints(tmp_path)) == 1
    same(train(sprites, out=tmp_path), plain)


@pytest.mark.parametrize("hook", ["on_window", "on_end"])
def test_a_fleet_trained_to_the_end_survives_a_failure(sprites, plain, tmp_path, hook):
    for out in (None, tmp_path):
        fails = Recorder(fail_in=hook, at=3)
        with pytest.raises(CallbackError) as caught:
            train(sprites, fails, out=out)
        same(caught.value.result, plain)
    assert not checkpoints(tmp_path)
    assert all((tmp_path / config.hash).exists() for config in plain.configs)


def test_a_failure_on_exit_does_not_hide_an_interruption(sprites, capsys):
    class Broken(uw.trackers.Callback):
        def on_window(self, table):
            return True

        def on_end(self, result):
            raise OSError("disk")

    with pytest.raises(InterruptedTrainingError) as caught:
        train(sprites, Broken())
    assert type(caught.value) is InterruptedTrainingError
    assert "Broken.on_end" in capsys.readouterr().err


def test_a_stop_in_the_last_window_of_a_fleet_stops_the_next_one(sprites, tmp_path):
    stops = Recorder(stop_in="on_window", at=2)
    with pytest.raises(InterruptedTrainingError) as caught:
        train(sprites, stops, steps=2, out=tmp_path, fleet_size=2)
    assert caught.value.value == 1
    assert len(stops.windows) == 1
    assert sum((tmp_path / run).exists() for run in stops.windows[0]["run"]) == 2
    rest = Recorder()
    fleet = train(sprites, rest, steps=2, out=tmp_path, fleet_size=2)
    assert len(fleet) == 4
    assert [len(table) for table in rest.windows] == [2]
    assert rest.results == [fleet]


def test_finished_runs_end_at_once(sprites, tmp_path):
    train(sprites, steps=2, out=tmp_path)
    seen = Recorder()
    fleet = train(sprites, seen, steps=2, out=tmp_path)
    assert (seen.windows, seen.results) == ([], [fleet])


@pytest.mark.parametrize("wrong", [[print], print, Recorder, [Recorder(), None]])
def test_callbacks_have_the_base_class(sprites, wrong):
    with pytest.raises(UnweaveError) as caught:
        Callbacks([wrong] if callable(wrong) else wrong)
    assert caught.value.subject == "callbacks"


def test_fit_and_the_estimator_have_callbacks(sprites, tmp_path):
    seen = Recorder()
    found = uw.fit(sprites, BetaVAE(beta=[1, 4]), seeds=1, steps=2, callbacks=seen, **SMALL)
    assert [len(table) for table in seen.windows] == [2]
    assert seen.results == [found.fleet]
    rows = np.random.default_rng(0).normal(size=(20, 3))
    made = uw.Unweaver(steps=2, seeds=1, latents=2, batch=4, callbacks=[Recorder()])
    copied = clone(made).fit(rows)
    assert made.callbacks[0].windows == []
    assert copied.callbacks[0].results == [copied.fit_.fleet]
    copied.save(tmp_path / "saved")
    assert uw.Unweaver.load(tmp_path / "saved").callbacks is None
