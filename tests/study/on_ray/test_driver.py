"""The driver of studies on real Ray nodes: when nodes or drivers die, weights do not change."""

import json
import os
import signal
import time
from dataclasses import replace

import pandas as pd
import pytest

import unweave as uw
from tests.study.on_ray.nodes import (
    alive,
    assert_same_weights,
    caught_in,
    holders,
    leave_a_mark,
    mark_checkpoint_of,
    marked,
    meanwhile,
    raylet,
    send,
    trainers,
    until,
    weights,
)
from unweave.errors import CallbackError
from unweave.fleet.checkpoint import checkpoints
from unweave.study import load, run
from unweave.study.on_ray.progress import REPORT_SECONDS, SILENT_SECONDS


def taken_over(folder, place, runs):
    """The new node of runs that were trained on another node before."""
    now = holders(folder / "ledger.sqlite")
    return next((other for other, held in now.items() if other != place and held & runs), None)


@pytest.mark.parametrize("outlived", [False, True], ids=["node", "raylet"])
def test_a_node_killed_in_the_middle_of_a_fleet_changes_nothing(
    cluster, nodes, study, undisturbed, tmp_path, capfd, outlived
):
    """The node dies together with its worker, or the worker survives for a while."""
    two = nodes(2)

    def kill():
        node, trainer, place, runs, since = caught_in(two, tmp_path)
        if not outlived:
            os.kill(trainer, signal.SIGKILL)
        os.kill(raylet(node), signal.SIGKILL)
        if not outlived:
            until(lambda: not alive(trainer))
            mark_checkpoint_of(runs, tmp_path)
        heir = until(lambda: taken_over(tmp_path, place, runs))
        if outlived:
            # By now it has noticed that it is no longer current, if it can still write.
            waited = time.monotonic() - since > SILENT_SECONDS - REPORT_SECONDS
            assert waited or not alive(trainer)
            send(trainer, signal.SIGCONT)  # the kernel may have ended a stopped process
            until(lambda: not alive(trainer))
        return node, runs, heir

    one = replace(study, metrics=()) if outlived else study
    with meanwhile(kill) as came:
        results = run(one, tmp_path, on=cluster.address, checkpoint_every=0.1, scorers=0)
    node, runs, heir = came[0]
    other = two[1 - two.index(node)]
    assert other.node_id[:6] in heir
    assert len(runs) == 2
    assert results.counts["scored"] == 6
    assert outlived or results.table["mig"].notna().all()
    assert_same_weights(weights(tmp_path), undisturbed, runs)
    assert marked(tmp_path) == (set() if outlived else runs)
    assert not checkpoints(tmp_path / "runs")
    assert not list(tmp_path.glob(".ray-*"))
    said = capfd.readouterr().err
    assert f"({node.node_id[:6]}, CPU 0) died" in said
    assert "of 6 runs trained" in said


def test_a_killed_driver_takes_its_tasks_with_it_and_the_next_one_resumes(
    cluster, nodes, part, undisturbed, tmp_path, start
):
    (node,), out = nodes(1), tmp_path / "out"
    (tmp_path / "squares.yaml").write_text(json.dumps(part.to_dict()))
    code = (
        "from unweave.study import run\n"
        f"run('squares.yaml', 'out', on='{cluster.address}', checkpoint_every=0.1)\n"
    )
    driver = start(code=code, cwd=tmp_path)
    _, trainer, _, runs, _ = caught_in([node], out)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    send(trainer, signal.SIGCONT)
    until(lambda: not trainers(node))
    ((path, kept),) = checkpoints(out / "runs").items()
    assert set(kept) == runs
    leave_a_mark(path)
    assert start(code=code, cwd=tmp_path).wait() == 0
    found = weights(out)
    assert_same_weights(found, {name: undisturbed[name] for name in runs}, runs)
    assert marked(out) == runs
    assert load(out).counts["scored"] == 2
    assert not list(out.glob(".ray-*"))


def test_callbacks_of_the_driver_see_all_tables_and_can_fail(cluster, nodes, part, tmp_path):
    class Tables(uw.trackers.Callback):
        def __init__(self):
            self.windows, self.diagnostics, self.results = [], [], []

        def on_window(self, table):
            self.windows.append(table)

        def on_diagnostics(self, table):
            self.diagnostics.append(table)
            raise OSError("disk")

        def on_end(self, result):
            self.results.append(result)

    nodes(1)
    out, logs, seen = tmp_path / "out", tmp_path / "logs", Tables()
    callbacks = [seen, uw.trackers.TensorBoard(logs)]
    with pytest.raises(CallbackError, match=r"Tables\.on_diagnostics.*disk"):
        run(replace(part, steps=2), out, on=cluster.address, progress=False, callbacks=callbacks)
    assert seen.results == [None]
    for tables, name in ((seen.windows, "kl"), (seen.diagnostics, "kl_9")):
        (table,) = tables
        for trained, step, value in table[["run", "step", name]].itertuples(index=False):
            curve = pd.read_parquet(out / "runs" / trained / "curve.parquet")
            assert (step, value) == (2, curve[name].iloc[-1])
    assert set(table["run"]) == set(weights(out))
    assert {path.name.rpartition("-")[2] for path in logs.iterdir()} == {
        trained[:8] for trained in table["run"]
    }
