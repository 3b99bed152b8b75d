"""Tasks on real Ray nodes: they resume from checkpoints, and a fleet that kills them fails."""

import os
import shutil
import signal
import socket
from dataclasses import replace

import numpy as np
import pytest

import unweave as uw
from tests.study.on_ray.nodes import (
    alive,
    assert_same_weights,
    caught,
    caught_in,
    cpu_seconds,
    leave_a_mark,
    marked,
    meanwhile,
    trainers,
    until,
    weights,
)
from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet.checkpoint import checkpoints
from unweave.study import load, run
from unweave.study.ledger import Ledger
from unweave.study.remote import open_store


def test_a_study_at_a_url_resumes_from_its_checkpoint(
    cluster, nodes, study, undisturbed, tmp_path
):
    url = f"file://{tmp_path / 'away'}"
    store = open_store(url)
    both = nodes(1)
    methods = {name: study.methods[name] for name in ("beta_vae", "dip_vae_i")}
    two = replace(study, methods=methods)

    def kill():
        _, trainer, _, runs, _ = caught(both, store.interrupted, store.folder / "ledger.sqlite")
        fleet = next(one for one in store._fleets().values() if set(one.runs) == runs)
        leave_a_mark(tmp_path / "away" / "fleets" / fleet.file)
        os.kill(trainer, signal.SIGKILL)
        return runs

    with meanwhile(kill) as came:
        results = run(
            two, url, on=cluster.address, progress=False, checkpoint_every=0.1, scorers=0
        )
    assert results.counts["scored"] == 4
    assert not list(store.runs.glob("*"))
    assert marked(tmp_path / "away") == came[0]
    found = weights(tmp_path / "away")
    assert len(found) == 4
    assert_same_weights(found, {name: undisturbed[name] for name in found}, came[0])
    assert not list((tmp_path / "away" / "fleets").glob("*"))
    assert not list((tmp_path / "away").glob(".ray-*"))
    shutil.rmtree(store.folder)
    again = load(url)
    assert again.counts["scored"] == 4
    assert again.table["mig"].notna().sum() == 4


def test_runs_that_repeatedly_kill_their_worker_fail(cluster, nodes, study, tmp_path):
    (node,) = nodes(1)
    methods = {name: study.methods[name] for name in ("beta_vae", "dip_vae_i")}
    bare = replace(study, methods=methods, metrics=())

    def kill():
        _, trainer, _, doomed, _ = caught_in([node], tmp_path)
        for attempt in range(3):
            if attempt:
                (trainer,) = until(lambda: trainers(node))
            os.kill(trainer, signal.SIGKILL)
            until(lambda gone=trainer: not alive(gone))
        return doomed

    with meanwhile(kill) as came:
        results = run(bare, tmp_path, on=cluster.address, progress=False, checkpoint_every=0.1)
    assert results.counts["failed"] == 2
    assert results.counts["scored"] == 2
    failures = results.failures
    assert set(failures["run"]) == came[0]
    assert failures["error"].str.contains("died 3 times").all()
    again = run(bare, tmp_path, progress=False)
    assert again.counts["scored"] == 4


def test_an_interrupted_study_resumes_from_its_checkpoint(cluster, nodes, part, tmp_path):
    """An interruption before the first step leaves no checkpoint, so later ones are tried too."""
    (node,) = nodes(1)
    long = replace(part, steps=150)

    def interrupted(out, seconds):
        ledger = out / "ledger.sqlite"

        def interrupt():
            until(lambda: ledger.exists() and Ledger(ledger).counts()["training"])
            (trainer,) = trainers(node)
            begun = cpu_seconds(trainer)
            until(lambda: cpu_seconds(trainer) > begun + seconds)
            os.kill(os.getpid(), signal.SIGINT)

        before = signal.getsignal(signal.SIGTERM)
        with meanwhile(interrupt), pytest.raises(InterruptedTrainingError):
            run(long, out, on=cluster.address, progress=False, checkpoint_every=1e9)
        assert signal.getsignal(signal.SIGTERM) == before
        assert Ledger(ledger).counts()["planned"] == 2
        assert not Ledger(ledger).workers()
        return list(checkpoints(out / "runs").values())

    for seconds in (0.5, 1):
        out = tmp_path / str(seconds)
        kept = interrupted(out, seconds)
        if kept:
            break
    assert [len(runs) for runs in kept] == [2]
    run(long, out, progress=False)
    run(long, tmp_path / "undisturbed", progress=False)
    assert_same_weights(weights(out), weights(tmp_path / "undisturbed"), kept[0])


def test_scores_of_tasks_match_evaluate(cluster, nodes, part, study, tmp_path):
    nodes(1)
    scored = replace(part, steps=2, metrics=study.metrics, sampled=("mig",))
    table = run(scored, tmp_path, on=cluster.address, progress=False).table.set_index("run")
    assert set(table["state"]) == {"scored"}
    models, data = tmp_path / "again", study.sources[0].open()
    shutil.copytree(tmp_path / "runs", models, ignore=shutil.ignore_patterns("scores*"))
    for sampled, name in ((False, "mig"), (True, "sampled.mig")):
        found = uw.evaluate(models, data, metrics="mig", sampled=sampled, progress=False)
        np.testing.assert_array_equal(table.loc[found["run"], name], found["mig"])


def test_a_node_without_access_to_the_folder_is_reported(cluster, nodes, part, tmp_path):
    """Without the driver's token, the node seems to have another folder at this path."""
    nodes(1)

    def remove_token():
        until(lambda: list(tmp_path.glob(".ray-*")))[0].unlink()

    with (
        meanwhile(remove_token),
        pytest.raises(UnweaveError, match=f"{socket.gethostname()} .*{tmp_path}"),
    ):
        run(part, tmp_path, on=cluster.address, progress=False)
    assert set(Ledger(tmp_path / "ledger.sqlite").states().values()) == {"planned"}
