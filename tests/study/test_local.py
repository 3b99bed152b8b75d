"""Running studies in this process: training, scoring, interruptions, kills and failures."""

import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.cli import main
from unweave.errors import CallbackError, InterruptedTrainingError, UnweaveError
from unweave.fleet.engine import Engine
from unweave.metrics import METRICS
from unweave.quality.distances import frechet_distance_of_features
from unweave.study import load, plan, run, scoring
from unweave.study.checking import check
from unweave.study.local import LocalRunner
from unweave.study.planning import device_name
from unweave.study.running import prepare
from unweave.study.scoring import Scorer
from unweave.study.store import Store
from unweave.study.training import DiskFullError, RunOptions
from unweave.study.workers import Worker


def go(study, folder, **options):
    return run(study, folder, progress=False, **{"scorers": 0, **options})


def weights(folder):
    """All parameters of every run in a study's folder."""
    return {
        path.name: torch.cat([b.flatten() for b in uw.load(path).parameters.values()])
        for path in sorted((folder / "runs").iterdir())
    }


def states(folder):
    table = load(folder).store.ledger.table()
    return dict(zip(table["run"], table["state"], strict=True))


def test_the_table_matches_evaluate(small, few, tmp_path):
    study = small(sampled=["gaussian_total_correlation"], metrics=["mig", "sap", "elbo"])
    table = go(study, tmp_path).table
    assert table[
        ["data", "method", "strength", "beta", "seed", "steps", "state"]
    ].values.tolist() == [
        ["few", "beta_vae", beta, beta, seed, 12, "scored"] for beta in (1, 4) for seed in (0, 1)
    ]
    data = uw.data.load(few["load"], factors=few["factors"])
    shutil.copytree(
        tmp_path / "runs", tmp_path / "again", ignore=shutil.ignore_patterns("scores*")
    )
    models = tmp_path / "again"
    expected = uw.evaluate(models, data, metrics=["mig", "sap", "elbo"], progress=False)
    sampled = uw.evaluate(
        models, data, metrics="gaussian_total_correlation", sampled=True, progress=False
    )
    ours = table.set_index("run").loc[expected["run"]]
    for name in ("mig", "sap", "elbo", "elbo.kl"):
        np.testing.assert_array_equal(ours[name], expected[name])
    name = "gaussian_total_correlation"
    np.testing.assert_array_equal(ours[f"sampled.{name}"], sampled[name])
    for one, (_, row) in zip(table["run"], table.iterrows(), strict=True):
        last = uw.load(tmp_path / "runs" / one).curve.iloc[-1]
        assert row["reconstruction"] == last["reconstruction"]
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "study.parquet"), table)
    pd.testing.assert_frame_equal(load(tmp_path).table, table)


def test_runs_match_training_without_a_study(small, few, tmp_path):
    go(small(), tmp_path)
    data = uw.data.load(few["load"], factors=few["factors"])
    method = uw.methods.BetaVAE(beta=4)
    settings = {"batch": 8, "architecture": "small_mlp", "progress": False}
    alone = uw.train(method, data, seeds=[1], steps=12, **settings)[0]
    saved = uw.load(tmp_path / "runs" / alone.config.hash)
    for name, buffer in alone.parameters.items():
        torch.testing.assert_close(saved.parameters[name], buffer, rtol=0, atol=1e-6)


def test_added_values_train_only_missing_runs(small, tmp_path):
    go(small(), tmp_path)
    before = {p.name: p.stat().st_ino for p in (tmp_path / "runs").iterdir()}
    more = small(methods={"beta_vae": {"beta": [1, 4, 16]}}, metrics=["mig", "sap"])
    assert plan(more, tmp_path).models == 2
    table = go(more, tmp_path).table
    after = {p.name: p.stat().st_ino for p in (tmp_path / "runs").iterdir()}
    assert len(after) == 6
    assert before.items() <= after.items()
    assert table["sap"].notna().all()
    assert sorted(table["strength"]) == [1, 1, 4, 4, 16, 16]
    assert plan(more, tmp_path).models == 0


def test_nothing_is_done_twice(small, tmp_path):
    go(small(), tmp_path)
    stamps = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*") if p.is_file()}
    go(small(), tmp_path)
    assert stamps == {
        p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*") if p.is_file()
    }


def test_scores_do_not_depend_on_the_scoring_process(small, tmp_path):
    study = small(metrics=["mig", "factor_vae"])
    here = go(study, tmp_path / "here").table
    there = go(study, tmp_path / "there", scorers=2).table
    pd.testing.assert_frame_equal(here, there)


def test_a_diverged_model_does_not_affect_others(small, tmp_path):
    settings = {"batch": 8, "architecture": "small_mlp", "optimiser": {"lr": 1e30}}
    study = small(settings=settings, seeds=1)
    results = go(study, tmp_path)
    assert results.counts["diverged"] == 2
    assert str(results) == "2 runs: 2 diverged"
    good = small(seeds=1)
    assert go(good, tmp_path).counts["scored"] == 2


def test_unavailable_data_fails_only_its_own_runs(small, few, tmp_path):
    images = tmp_path / "mine.npy"
    np.save(images, np.random.default_rng(0).integers(256, size=(32, 16, 16, 1), dtype=np.uint8))
    study = small(data=[few, str(images)], metrics=["active_units"], seeds=1)
    store = Store(tmp_path / "study")
    store.runs.mkdir(parents=True)
    store.plan(study)
    images.unlink()
    results = go(study, tmp_path / "study")
    assert (results.counts["scored"], results.counts["failed"]) == (2, 2)
    reasons = set(results.failures["error"])
    assert len(reasons) == 1
    assert str(images) in reasons.pop()
    np.save(images, np.zeros((32, 16, 16, 1), np.uint8))
    again = go(study, tmp_path / "study")
    assert again.counts["failed"] == 2
    assert str(images) in again.failures["error"].iloc[0]


def test_a_metric_that_raises_is_reported_and_the_study_continues(small, tmp_path, monkeypatch):
    def broken(codes, factors=None, seed=0):
        raise ZeroDivisionError("by nothing")

    metric = METRICS["mig"]
    monkeypatch.setitem(METRICS, "mig", type(metric)(**{**vars(metric), "function": broken}))
    results = go(small(seeds=1), tmp_path)
    assert results.counts["failed"] == 2
    assert set(results.failures["error"]) == {"no mig: ZeroDivisionError: by nothing"}
    assert results.table["active_units"].notna().all()
    monkeypatch.undo()
    again = go(small(seeds=1), tmp_path)
    assert again.counts["scored"] == 2
    assert again.table["mig"].notna().all()
    assert again.failures.empty


def test_image_metrics_are_computed_once_the_weights_are_available(small, tmp_path, no_weights):
    images = np.random.default_rng(0).integers(256, size=(6, 64, 64, 1), dtype=np.uint8)
    np.save(tmp_path / "six.npy", images)
    metrics = ["pixel_error", "fid", "active_units"]
    study = small(data=[str(tmp_path / "six.npy")], methods={"vae": {}}, seeds=1, metrics=metrics)
    without = go(study, tmp_path / "study")
    no_weights.undo()
    assert without.counts["failed"] == 1
    assert re.match("no fid: .*x.whl", without.failures["error"].item())
    assert without.table["pixel_error"].notna().all()
    results = go(study, tmp_path / "study", scorers=1)
    assert results.counts["scored"] == 1
    (row,) = results.table.to_dict("records")
    (folder,) = (tmp_path / "study" / "runs").iterdir()
    model = uw.load(folder)
    again = model.decode(model.encode(images)[0])
    assert row["pixel_error.l1"] == pytest.approx(uw.quality.l1(images, again).mean(), rel=1e-5)
    assert row["reconstruction"] == model.curve.iloc[-1]["reconstruction"]
    features = [uw.quality.inception_features(part) for part in (images, again)]
    assert row["fid"] == pytest.approx(frechet_distance_of_features(*features), rel=1e-4)


def test_a_scoring_process_that_dies_is_replaced(small, tmp_path):
    store = Store(tmp_path)
    store.runs.mkdir()
    store.plan(small(metrics=["mig"]))
    work = LocalRunner(store, RunOptions(scorers=1))
    killed = []

    class Killing(Scorer):
        def _submit(self, job):
            super()._submit(job)
            if len(killed) < 1:
                # The pool starts its process with the first job.
                time.sleep(0.2)
                for process in list(self.pool._processes.values()):
                    os.kill(process.pid, signal.SIGKILL)
                    killed.append(process.pid)

    work.scorer = Killing(store, work.device, 1, work.next_to_score, store.ledger.record)
    work.run()
    assert len(killed) == 1
    assert load(tmp_path).counts["scored"] == 4


def test_a_run_that_kills_its_scoring_process_fails_alone(small, tmp_path):
    study = small(metrics=["mig"])
    store = Store(tmp_path)
    prepare(store, study)
    poisoned = study.runs()[1].hash
    work = LocalRunner(store, RunOptions(scorers=2))

    class Poisoned(Scorer):
        def _submit(self, job):
            if job.config.hash == poisoned:
                # Codes that kill the process that unpickles them.
                job = job._replace(codes=Fatal())
            super()._submit(job)

    work.scorer = Poisoned(store, work.device, 2, work.next_to_score, store.ledger.record)
    work.run()
    assert states(tmp_path).pop(poisoned) == "failed"
    assert load(tmp_path).counts["scored"] == 3, load(tmp_path).failures["error"].tolist()
    assert "died" in load(tmp_path).failures["error"].iloc[0]


class Fatal:
    def __reduce__(self):
        return os._exit, (1,)


def test_a_script_without_a_guard_runs_once(small, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import json, unweave as uw\n"
        f"study = uw.study.Study.from_dict(json.loads({json.dumps(small().to_dict())!r}))\n"
        "print('begun', flush=True)\n"
        "print(uw.study.run(study, 'out', progress=False, scorers=1))\n"
    )
    command = [sys.executable, str(script)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split("\n") == ["begun", "4 runs: 4 scored", ""]


def test_metrics_added_while_another_process_scores_are_computed(small, tmp_path):
    first, more = small(metrics=["mig"]), small(metrics=["mig", "active_units"])
    store = Store(tmp_path)
    prepare(store, first)
    work = LocalRunner(store, RunOptions(scorers=0))

    class Surprised(Scorer):
        def _submit(self, job):
            if self.done == 0:
                Store(tmp_path).plan(more)
            super()._submit(job)

    work.scorer = Surprised(store, work.device, 0, work.next_to_score, store.ledger.record)
    work.run()
    assert load(tmp_path).table["active_units"].notna().all()


def test_metrics_added_before_a_kill_are_computed(small, tmp_path):
    go(small(metrics=["mig"]), tmp_path)
    said = json.loads((tmp_path / "study.json").read_text())
    said["study"]["metrics"] = ["mig", "active_units"]
    (tmp_path / "study.json").write_text(json.dumps(said))
    table = go(small(metrics=["mig", "active_units"]), tmp_path).table
    assert table["active_units"].notna().all()


def test_a_table_that_cannot_be_written_does_not_stop_training(small, tmp_path, capsys):
    (tmp_path / "study.parquet").mkdir()
    store = Store(tmp_path)
    prepare(store, small())
    work = LocalRunner(store, RunOptions(scorers=0, fleet_size=2))
    with pytest.raises(UnweaveError, match=r"study\.parquet"):
        work.run()
    assert load(tmp_path).counts["failed"] == 0


def test_a_fleet_that_no_longer_fits_is_halved_also_after_a_checkpoint(
    small, tmp_path, monkeypatch
):
    import unweave.study.training as module

    study, sizes, train = small(), [], module.train_runs

    def short_of_memory(configs, data, **options):
        sizes.append(len(configs))
        if len(configs) > 2:
            # Interrupted after a checkpoint, then on a smaller device.
            with pytest.raises(InterruptedTrainingError):
                train(configs, data, **{**options, "on_progress": lambda doing: True})
            raise torch.cuda.OutOfMemoryError("not enough")
        return train(configs, data, **options)

    monkeypatch.setattr(module, "train_runs", short_of_memory)
    assert go(study, tmp_path).counts["scored"] == 4
    assert sizes == [4, 2, 2]


class Tables(uw.trackers.Callback):
    """Keeps tables and results; stops after as many tables as given."""

    def __init__(self, most=99):
        self.tables, self.results, self.most = [], [], most

    def on_window(self, table):
        self.tables.append(table)
        return len(self.tables) >= self.most

    def on_end(self, result):
        self.results.append(result)


def test_callbacks_see_all_fleets_and_the_results(small, tmp_path):
    seen = Tables()
    results = go(small(), tmp_path, fleet_size=2, callbacks=seen)
    table = pd.concat(seen.tables)
    assert [len(one) for one in seen.tables] == [2, 2]
    assert set(table["run"]) == set(results.table["run"])
    assert set(table["step"]) == {12}
    assert seen.results == [results]


def test_a_callback_stops_a_study(small, tmp_path):
    seen = Tables(most=1)
    with pytest.raises(InterruptedTrainingError):
        go(small(), tmp_path, fleet_size=2, callbacks=seen)
    assert seen.results == [None]
    assert sum(state == "planned" for state in states(tmp_path).values()) == 2
    assert go(small(), tmp_path).counts["scored"] == 4


def test_a_failing_callback_stops_a_study_instead_of_failing_its_runs(small, tmp_path):
    seen = Tables(most=None)  # fails to compare
    with pytest.raises(CallbackError, match=r"Tables\.on_window"):
        go(small(), tmp_path, fleet_size=2, callbacks=[seen])
    assert seen.results == [None]
    assert load(tmp_path).counts["failed"] == 0
    assert load(tmp_path).counts["planned"] == 2


def test_curves_of_a_study_are_written_to_a_tracker(small, tmp_path):
    file = tmp_path / "small.json"
    file.write_text(json.dumps(small(seeds=1, metrics=[]).to_dict()))
    args = ["study", "run", str(file), "--out", str(tmp_path / "out"), "--scorers", "0"]
    with pytest.raises(SystemExit) as left:
        main([*args, "--track", f"tensorboard={tmp_path / 'logs'}"])
    assert left.value.code == 0
    runs = {path.name for path in (tmp_path / "out" / "runs").iterdir()}
    written = {path.name for path in (tmp_path / "logs").iterdir()}
    assert {name.rpartition("-")[2] for name in written} == {run[:8] for run in runs}


def test_runs_no_longer_in_the_study_are_ignored(small, tmp_path):
    store = Store(tmp_path)
    prepare(store, small(methods={"beta_vae": {"beta": [1, 4, 16]}}))
    results = go(small(methods={"beta_vae": {"beta": 4}}), tmp_path)
    assert str(results) == "2 runs: 2 scored"
    assert results.table["beta"].tolist() == [4, 4]
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_missing_data_sets_exit_code(small, tmp_path):
    file = tmp_path / "small.json"
    said = small(seeds=1).to_dict()
    file.write_text(json.dumps({**said, "data": [*said["data"], "./nowhere"]}))
    with pytest.raises(SystemExit) as left:
        main(["study", "run", str(file), "--out", str(tmp_path / "out"), "--scorers", "0"])
    assert left.value.code == 1
    assert load(tmp_path / "out").counts["scored"] == 2


def test_speeds_are_those_of_training(small, tmp_path):
    go(small(), tmp_path)
    ledger = load(tmp_path).store.ledger
    kind = small().runs()[0].kind
    (met,) = ledger.speeds(device_name(torch.device("cpu"))).values()
    ledger.reopen([config.hash for config in small().runs()], "planned")
    go(small(), tmp_path)
    assert ledger.speeds(device_name(torch.device("cpu"))) == {kind: met}


def test_a_folder_that_cannot_be_written(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnweaveError, check=about(tmp_path / "file" / "study")):
        go(small(), tmp_path / "file" / "study")


def test_too_little_disk_space_stops_before_training(small, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DiskFullError, check=about(tmp_path, 1_000_000)):
        go(small(), tmp_path)
    assert load(tmp_path).counts["planned"] == 4


FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
from unweave.cli import main
main()
"""


def test_a_disk_that_fills_while_saving_fails_the_runs(small, tmp_path, start):
    file = tmp_path / "small.json"
    file.write_text(json.dumps(small().to_dict()))
    out = tmp_path / "out"
    result = start("study", "run", file, "--out", out, "--scorers", "0", code=FULL)
    assert result.wait() == 1, result.stderr
    assert "4 runs: 4 failed" in result.stdout
    assert "Traceback" not in result.stderr
    assert [p for p in (out / "runs").iterdir() if not p.name.startswith(".")] == []
    # With enough space again, the study resumes.
    assert go(small(), out).counts["scored"] == 4


def test_interrupted_training_resumes_with_the_same_result(small, tmp_path, catches, start):
    study = small(steps=40)
    go(study, tmp_path / "whole")
    file = tmp_path / "small.json"
    file.write_text(json.dumps(study.to_dict()))
    process = start("study", "run", file, "--out", tmp_path / "cut", "--scorers", "0")
    while process.poll() is None and not catches(process, signal.SIGTERM):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130, process.stderr
    assert "of 40" in process.stderr
    assert load(tmp_path / "cut").counts["planned"] == 4
    assert list((tmp_path / "cut" / "runs").glob(".fleet-*"))
    go(study, tmp_path / "cut")
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert whole.keys() == cut.keys()
    for name, values in whole.items():
        assert torch.equal(values, cut[name])


KILLS = 8


def worker(folder):
    torch.set_num_threads(1)
    LocalRunner(Store(folder), RunOptions(scorers=0, fleet_size=2, checkpoint_every=0.02)).run()


def test_kills_do_not_change_the_results(small, tmp_path):
    """A few kills; benchmarks/torture.py kills more often, and at chosen moments."""
    study = small(
        methods={"beta_vae": {"beta": [1, 4]}, "dip_vae_ii": {"lambda_od": [1, 10]}},
        steps=60,
    )
    go(study, tmp_path / "calm")
    store = Store(tmp_path / "storm")
    store.runs.mkdir(parents=True)
    store.plan(study)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["unweave.study.local"])
    chance, kills, left = random.Random(0), 0, []
    deadline = time.monotonic() + 240
    while kills < KILLS and time.monotonic() < deadline:
        left = [one for one in left if one.is_alive()]
        while len(left) < 2:
            left.append(context.Process(target=worker, args=(store.folder,)))
            left[-1].start()
        time.sleep(chance.uniform(0.02, 0.3))
        victim = left.pop(chance.randrange(2))
        if victim.is_alive():
            os.kill(victim.pid, signal.SIGKILL)
            kills += 1
        victim.join()
        if not store.ledger.busy():
            # Finished too early: delete some runs, as after a disk failure, and resume.
            for folder in sorted(store.runs.iterdir())[::2]:
                shutil.rmtree(folder)
            store.ledger.reopen(
                [c.hash for c in study.runs() if not (store.runs / c.hash).exists()], "planned"
            )
    for one in left:
        one.kill()
        one.join()
    assert kills == KILLS
    worker(store.folder)
    assert set(states(store.folder).values()) == {"scored"}
    calm, storm = weights(tmp_path / "calm"), weights(tmp_path / "storm")
    assert calm.keys() == storm.keys()
    for name, values in calm.items():
        torch.testing.assert_close(storm[name], values, rtol=0, atol=1e-6)
    table = load(store.folder).table.set_index("run")
    expected = load(tmp_path / "calm").table.set_index("run").loc[table.index]
    pd.testing.assert_frame_equal(
        table[["mig", "reconstruction"]], expected[["mig", "reconstruction"]], atol=1e-3
    )
    assert [p.name for p in store.runs.glob(".*")] == []
    assert check(store).good


def test_two_processes_share_a_study(small, tmp_path):
    study = small(seeds=4)
    store = Store(tmp_path)
    store.runs.mkdir()
    store.plan(study)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["unweave.study.local"])
    both = [context.Process(target=worker, args=(tmp_path,)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert [one.exitcode for one in both] == [0, 0]
    assert load(tmp_path).counts["scored"] == 8


def test_a_finished_worker_is_not_listed_again(small, tmp_path, monkeypatch):
    """The last heartbeat, however late, comes before the worker is removed."""
    import unweave.study.local as module

    go(small(), tmp_path)
    store = Store(tmp_path)
    beat = store.ledger.heartbeat

    def late(*worker):
        time.sleep(0.1)
        beat(*worker)

    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(store.ledger, "heartbeat", late)
    for _ in range(3):
        LocalRunner(store, RunOptions(scorers=0)).run()
        time.sleep(0.2)
        with closing(sqlite3.connect(store.ledger.path)) as connection:
            assert connection.execute("SELECT worker FROM workers").fetchall() == []


def test_trained_runs_are_scored_at_once(small, tmp_path, monkeypatch):
    """Not only at the next look for runs that other processes have trained."""
    monkeypatch.setattr(scoring, "POLL_SECONDS", 60.0)
    start = time.monotonic()
    assert go(small(), tmp_path).counts["scored"] == 4
    assert time.monotonic() - start < 50


def left_by_a_dead_worker(study, folder):
    """A study that a worker was training when it died, and that worker."""
    store = Store(folder)
    prepare(store, study)
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead = Worker("dead", Worker.here().host, process.pid)
    runs = [config.hash for config in study.runs()]
    store.ledger.claim(dead, runs)
    store.ledger.mark(runs, "training")
    return store, dead


def test_the_next_run_removes_dead_workers(small, tmp_path):
    study = small(seeds=1)
    store, _ = left_by_a_dead_worker(study, tmp_path)
    prepare(store, study)
    with closing(sqlite3.connect(store.ledger.path)) as connection:
        assert connection.execute("SELECT worker FROM workers").fetchall() == []
    assert set(states(tmp_path).values()) == {"planned"}


def test_status_does_not_show_dead_workers(small, tmp_path, capsys):
    store, dead = left_by_a_dead_worker(small(seeds=1), tmp_path)
    store.ledger.heartbeat(dead, "2 models at step 5 of 12")
    main(["study", "status", str(tmp_path)])
    said = capsys.readouterr().out
    assert "2 runs: 2 planned" in said
    assert str(dead.process) not in said
    assert "step 5" not in said


@pytest.mark.parametrize(("mixed", "expected"), [(True, [4]), (False, [2, 2])])
def test_runs_of_several_methods_share_a_fleet_if_they_should(mixed, expected, small, tmp_path):
    study = small(
        methods={"beta_vae": {"beta": 4}, "factor_vae": {"gamma": 2, "width": 50}}, seeds=2
    )
    prepare(store := Store(tmp_path), study)
    runner = LocalRunner(store, RunOptions(scorers=0))
    runner.claims.mixed = mixed
    claimed = [runner.claims.next_fleet() for _ in range(3)]
    assert [len(fleet) for fleet in claimed if fleet] == expected
    assert len({config.hash for fleet in claimed for config in fleet}) == 4


def test_a_study_of_mixed_fleets_gives_the_same_weights(small, tmp_path):
    study = small(
        methods={"beta_vae": {"beta": 4}, "factor_vae": {"gamma": 2, "width": 50}}, seeds=2
    )
    for folder, mixed in (("mixed", True), ("apart", False)):
        prepare(store := Store(tmp_path / folder), study)
        runner = LocalRunner(store, RunOptions(scorers=0, fleet_size=3))
        runner.claims.mixed = mixed
        runner.run()
        assert set(states(tmp_path / folder).values()) == {"scored"}
    mixed, apart = (weights(tmp_path / folder) for folder in ("mixed", "apart"))
    assert mixed.keys() == apart.keys()
    assert all(torch.equal(mixed[run], apart[run]) for run in mixed)
    speeds = load(tmp_path / "mixed").store.ledger.speeds(device_name(torch.device("cpu")))
    assert len(speeds) == 2


def test_a_study_that_asks_for_more_steps_continues_its_runs(small, tmp_path, monkeypatch):
    def study(steps):
        return small(steps=steps, metrics=[], keep_optimiser=True)

    whole = weights_of(go(study(12), tmp_path / "whole"))
    go(study(8), tmp_path / "parts")
    planned = plan(study(12), tmp_path / "parts", device="cpu")
    assert planned.seconds == pytest.approx(plan(study(12), device="cpu").seconds / 3, rel=0.5)
    advance, taken = Engine.advance, []
    monkeypatch.setattr(Engine, "advance", lambda self, n: (taken.append(n), advance(self, n)))
    results = go(study(12), tmp_path / "parts")
    assert sum(taken) == 4
    assert weights_of(results) == whole
    assert set(results.table["steps"]) == {12}
    go(small(steps=14, metrics=[]), tmp_path / "parts")  # uses states, but saves none
    assert sum(taken) == 6
    assert len(list(tmp_path.glob("parts/runs/*/optimiser.safetensors"))) == 8
    assert check(results.store).good


def weights_of(results):
    """The weights of every run of a study, by seed and strength."""
    return {
        (row["seed"], row["strength"]): uw.load(results.store.runs / row["run"])
        .parameters["encoder"]
        .tolist()
        for _, row in results.table.iterrows()
    }
