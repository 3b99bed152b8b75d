"""Studies on real Ray nodes: kills do not change the weights, and no run is trained twice."""

import importlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import ray
import torch
from ray.cluster_utils import Cluster
from safetensors.torch import load_file

import unweave
import unweave as uw
from tests.raising import about
from unweave.errors import CallbackError, InterruptedTrainingError, UnweaveError
from unweave.fleet.checkpoint import checkpoints
from unweave.io.tensors import digest_of, open_tensors, write_tensors
from unweave.io.writing import whole_file
from unweave.study import Study, load, run
from unweave.study.ledger import Ledger
from unweave.study.on_ray import driver
from unweave.study.on_ray.cluster import (
    Slot,
    check_reachable,
    connected,
    slots,
)
from unweave.study.on_ray.progress import (
    REPORT_SECONDS,
    SILENT_SECONDS,
    StudyWatch,
    details,
    summary,
)
from unweave.study.remote import open_store
from unweave.study.running import prepare
from unweave.study.store import Store
from unweave.study.workers import Worker

ENOUGH = 80_000_000
QUICK = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
STEPS = 45


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Three fleets of two models each, on images of 32 × 32 pixels."""
    folder = tmp_path_factory.mktemp("squares")
    images = np.zeros((16, 16, 32, 32), np.uint8)
    for row, column in np.ndindex(16, 16):
        images[row, column, row : row + 16, column : column + 16] = 255
    np.save(folder / "squares.npy", images.reshape(256, 32, 32))
    rows = [f"{row},{column}" for row, column in np.ndindex(16, 16)]
    (folder / "factors.csv").write_text("\n".join(["row,column", *rows]))
    squares = {"load": str(folder / "squares.npy"), "factors": str(folder / "factors.csv")}
    return Study(
        data=[squares],
        methods={
            "beta_vae": {"beta": [1, 4]},
            "beta_tc_vae": {"beta": [4, 8]},
            "dip_vae_i": {"lambda_od": [1, 5]},
        },
        steps=STEPS,
        metrics=["mig"],
        settings={"batch": 8},
    )


@pytest.fixture(scope="module")
def cluster():
    """A head node without resources for tasks, so that nodes can be added and removed."""
    source = str(Path(unweave.__file__).parents[1])
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    made = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "num_gpus": 0,
            "object_store_memory": ENOUGH,
            "include_dashboard": False,
            "_system_config": QUICK,
        },
    )
    yield made
    ray.shutdown()
    made.shutdown()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def add_node(cluster, monkeypatch):
    """Adds temporary nodes with one core each, and polls them often."""
    monkeypatch.setattr(driver, "POLL_SECONDS", 0.5)
    nodes = []

    def add():
        nodes.append(cluster.add_node(num_cpus=1, num_gpus=0, object_store_memory=ENOUGH))
        return nodes[-1]

    yield add
    for node in nodes:
        cluster.remove_node(node, allow_graceful=False)


def raylet(node):
    return node.all_processes["raylet"][0].process.pid


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def trainers(node):
    """The processes of a node that train a fleet."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            title = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == raylet(node) and title.startswith(b"ray::train"):
            found.append(int(entry.name))
    return found


def holders(ledger):
    """The runs that are being trained, by the display name of the node."""
    found = {}
    with closing(sqlite3.connect(ledger.path)) as connection:
        rows = connection.execute(
            "SELECT run, doing FROM runs JOIN workers USING (worker) WHERE state = 'training'"
        ).fetchall()
    for name, doing in rows:
        found.setdefault(doing.partition(":")[0], set()).add(name)
    return found


@contextmanager
def meanwhile(job):
    """Run a function in a thread during the block; the list then holds its result or error."""
    came = []

    def body():
        try:
            came.append(job())
        except BaseException as error:
            came.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    yield came
    thread.join(60)
    assert came, "it did not end"
    if isinstance(came[0], BaseException):
        raise came[0]


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


def checkpointed(folder):
    """A node whose fleet has a checkpoint, and the runs of that fleet."""
    if not (folder / "ledger.sqlite").exists():
        return None
    kept = [set(runs) for runs in checkpoints(folder / "runs").values()]
    now = holders(Ledger(folder / "ledger.sqlite"))
    return next(((place, runs) for place, runs in now.items() if runs in kept), None)


def taken_over(folder, place, runs):
    """The new node of runs that were trained on another node before."""
    now = holders(Ledger(folder / "ledger.sqlite"))
    return next((other for other, held in now.items() if other != place and held & runs), None)


def weights(folder):
    return {
        path.parent.name: load_file(path)
        for path in sorted((folder / "runs").glob("*/weights.safetensors"))
    }


def assert_same_weights(one, other, bits=()):
    """Compare weights, bit by bit for runs that were trained in the same fleets."""
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].keys() == other[name].keys()
        close = {"rtol": 0, "atol": 0} if name in bits else {"rtol": 1e-5, "atol": 1e-5}
        for key in one[name]:
            torch.testing.assert_close(one[name][key], other[name][key], **close)


@pytest.fixture(scope="module")
def undisturbed(study, tmp_path_factory):
    """The weights after uninterrupted training in one process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(study, folder, progress=False)
    return weights(folder)


def leave_a_mark(path):
    """Add a row to the loss curve in a checkpoint that training would not write."""
    with open_tensors(path) as file:
        facts, tensors = file.facts, file.tensors()
    assert 0 < int(tensors["step"]) < STEPS
    mark = torch.full((1, *tensors["curve"].shape[1:]), -1.0)
    tensors["curve"] = torch.cat([mark, tensors["curve"]])
    with whole_file(path) as temporary:
        write_tensors(temporary, tensors, {**facts, "sha256": digest_of(tensors)})


def marked(folder):
    """The runs that were resumed from a checkpoint with such a mark."""
    curves = {path.parent.name: pd.read_parquet(path) for path in folder.glob("runs/*/curve.*")}
    return {name for name, curve in curves.items() if (curve["step"] == -1).any()}


@pytest.mark.parametrize("outlived", [False, True], ids=["node", "raylet"])
def test_a_node_killed_in_the_middle_of_a_fleet_changes_nothing(
    cluster, add_node, study, undisturbed, tmp_path, capfd, outlived
):
    """The node dies together with its worker, or the worker survives for a while."""
    nodes = [add_node(), add_node()]

    def kill():
        place, runs = until(lambda: checkpointed(tmp_path))
        node = next(node for node in nodes if node.node_id[:6] in place)
        (trainer,) = trainers(node)
        start = time.monotonic()
        os.kill(trainer, signal.SIGSTOP if outlived else signal.SIGKILL)
        os.kill(raylet(node), signal.SIGKILL)
        if not outlived:
            until(lambda: not alive(trainer))
            kept = checkpoints(tmp_path / "runs")
            leave_a_mark(next(path for path, held in kept.items() if set(held) == runs))
        heir = until(lambda: taken_over(tmp_path, place, runs))
        if outlived:
            # By now it has noticed that it is no longer current, if it can still write.
            waited = time.monotonic() - start > SILENT_SECONDS - REPORT_SECONDS
            assert waited or not alive(trainer)
            with suppress(ProcessLookupError):  # the kernel may have ended a stopped process
                os.kill(trainer, signal.SIGCONT)
            until(lambda: not alive(trainer))
        return node, runs, heir

    with meanwhile(kill) as came:
        results = run(study, tmp_path, on=cluster.address, checkpoint_every=0.1, scorers=0)
    node, runs, heir = came[0]
    other = nodes[1 - nodes.index(node)]
    assert other.node_id[:6] in heir
    assert len(runs) == 2
    assert results.counts["scored"] == 6
    assert results.table["mig"].notna().all()
    assert_same_weights(weights(tmp_path), undisturbed, runs)
    assert marked(tmp_path) == (set() if outlived else runs)
    assert not checkpoints(tmp_path / "runs")
    assert not list(tmp_path.glob(".ray-*"))
    said = capfd.readouterr().err
    assert f"({node.node_id[:6]}, CPU 0) died" in said
    assert "of 6 runs trained" in said


def test_a_study_at_a_url_resumes_from_its_checkpoint(
    cluster, add_node, study, undisturbed, tmp_path
):
    url = f"file://{tmp_path / 'away'}"
    store = open_store(url)
    nodes = [add_node(), add_node()]

    def uploaded():
        kept = [set(runs) for runs in store.interrupted()]
        if not kept:  # before that there may be no ledger yet
            return None
        now = holders(store.ledger)
        return next(((place, runs) for place, runs in now.items() if runs in kept), None)

    def kill():
        place, runs = until(uploaded)
        node = next(node for node in nodes if node.node_id[:6] in place)
        (trainer,) = trainers(node)
        os.kill(trainer, signal.SIGSTOP)
        fleet = next(one for one in store._fleets().values() if set(one.runs) == runs)
        leave_a_mark(tmp_path / "away" / "fleets" / fleet.file)
        os.kill(trainer, signal.SIGKILL)
        return runs

    with meanwhile(kill) as came:
        results = run(
            study, url, on=cluster.address, progress=False, checkpoint_every=0.1, scorers=0
        )
    assert results.counts["scored"] == 6
    assert not list(store.runs.glob("*"))
    assert marked(tmp_path / "away") == came[0]
    assert_same_weights(weights(tmp_path / "away"), undisturbed, came[0])
    assert not list((tmp_path / "away" / "fleets").glob("*"))
    assert not list((tmp_path / "away").glob(".ray-*"))
    shutil.rmtree(store.folder)
    again = load(url)
    assert again.counts["scored"] == 6
    assert again.table["mig"].notna().sum() == 6


def test_runs_that_repeatedly_kill_their_worker_fail(cluster, add_node, study, tmp_path):
    node, bare = add_node(), replace(study, metrics=())

    def kill():
        _, doomed = until(lambda: checkpointed(tmp_path))
        for _ in range(3):
            (trainer,) = until(lambda: trainers(node))
            os.kill(trainer, signal.SIGKILL)
            until(lambda gone=trainer: not alive(gone))
        return doomed

    with meanwhile(kill) as came:
        results = run(bare, tmp_path, on=cluster.address, progress=False, checkpoint_every=0.1)
    assert results.counts["failed"] == 2
    assert results.counts["scored"] == 4
    failures = results.failures
    assert set(failures["run"]) == came[0]
    assert failures["error"].str.contains("died 3 times").all()
    again = run(bare, tmp_path, progress=False)
    assert again.counts["scored"] == 6


def test_an_interrupted_study_resumes_from_its_checkpoint(
    cluster, add_node, study, tmp_path_factory, tmp_path
):
    """An interruption before the first step leaves no checkpoint, so later ones are tried too."""
    add_node()
    long = replace(study, methods={"beta_vae": {"beta": [1, 4]}}, steps=200, metrics=())
    undisturbed = tmp_path_factory.mktemp("undisturbed")

    def interrupted(out, delay):
        ledger = out / "ledger.sqlite"

        def interrupt():
            until(lambda: ledger.exists() and Ledger(ledger).counts()["training"])
            time.sleep(delay)
            os.kill(os.getpid(), signal.SIGINT)

        before = signal.getsignal(signal.SIGTERM)
        with meanwhile(interrupt), pytest.raises(InterruptedTrainingError):
            run(long, out, on=cluster.address, progress=False, checkpoint_every=1e9)
        assert signal.getsignal(signal.SIGTERM) == before
        assert Ledger(ledger).counts()["planned"] == 2
        assert not Ledger(ledger).workers()
        return list(checkpoints(out / "runs").values())

    for delay in (0.5, 1, 2, 4):
        out = tmp_path / str(delay)
        kept = interrupted(out, delay)
        if kept:
            break
    assert [len(runs) for runs in kept] == [2]
    run(long, out, progress=False)
    run(long, undisturbed, progress=False)
    assert_same_weights(weights(out), weights(undisturbed), kept[0])


def test_a_killed_driver_takes_its_tasks_with_it_and_the_next_one_resumes(
    cluster, add_node, study, undisturbed, tmp_path, start
):
    node, out = add_node(), tmp_path / "out"
    part = replace(study, methods={"beta_vae": {"beta": [1, 4]}})
    (tmp_path / "squares.yaml").write_text(json.dumps(part.to_dict()))
    code = (
        "from unweave.study import run\n"
        f"run('squares.yaml', 'out', on='{cluster.address}', checkpoint_every=0.1, scorers=0)\n"
    )
    driver = start(code=code, cwd=tmp_path)
    _, runs = until(lambda: checkpointed(out))
    driver.send_signal(signal.SIGKILL)
    driver.wait()
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


def test_callbacks_of_the_driver_see_all_tables_and_can_fail(cluster, add_node, study, tmp_path):
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

    add_node()
    part = replace(study, methods={"beta_vae": {"beta": [1, 4]}}, steps=2, metrics=())
    out, logs, seen = tmp_path / "out", tmp_path / "logs", Tables()
    callbacks = [seen, uw.trackers.TensorBoard(logs)]
    with pytest.raises(CallbackError, match=r"Tables\.on_diagnostics.*disk"):
        run(part, out, on=cluster.address, progress=False, callbacks=callbacks)
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


def test_scores_of_tasks_match_evaluate(cluster, add_node, study, tmp_path):
    add_node()
    part = replace(study, methods={"beta_vae": {"beta": [1, 4]}}, sampled=("mig",))
    table = run(part, tmp_path, on=cluster.address, progress=False).table.set_index("run")
    assert set(table["state"]) == {"scored"}
    models, data = tmp_path / "again", study.sources[0].open()
    shutil.copytree(tmp_path / "runs", models, ignore=shutil.ignore_patterns("scores*"))
    for sampled, name in ((False, "mig"), (True, "sampled.mig")):
        found = uw.evaluate(models, data, metrics="mig", sampled=sampled, progress=False)
        np.testing.assert_array_equal(table.loc[found["run"], name], found["mig"])


def test_a_node_without_access_to_the_folder_is_reported(cluster, add_node, study, tmp_path):
    """Without the driver's token, the node seems to have another folder at this path."""
    add_node()

    def remove_token():
        until(lambda: list(tmp_path.glob(".ray-*")))[0].unlink()

    with (
        meanwhile(remove_token),
        pytest.raises(UnweaveError, match=f"{socket.gethostname()} .*{tmp_path}"),
    ):
        run(study, tmp_path, on=cluster.address, progress=False)
    assert set(Ledger(tmp_path / "ledger.sqlite").states().values()) == {"planned"}


def test_a_local_cluster_gives_the_same_results(cluster, study, undisturbed, tmp_path, start):
    """Runs in a subprocess, since a process that started Ray cannot join other clusters."""
    part = replace(study, methods={"beta_vae": {"beta": [1, 4]}})
    (tmp_path / "squares.yaml").write_text(json.dumps(part.to_dict()))
    command = ["study", "run", "squares.yaml", "--on", "ray", "--out", "out", "--scorers", "0"]
    done = start(*command, cwd=tmp_path)
    assert done.wait() == 0, done.stderr
    assert "2 runs: 2 scored" in done.stdout
    assert "unweave: 0 of 2 runs trained, 0 scored, 0 workers, 1 starting" in done.stderr
    found = weights(tmp_path / "out")
    assert_same_weights(found, {name: undisturbed[name] for name in found})


def test_the_code_is_sent_to_the_nodes(cluster, add_node):
    add_node()
    with connected(cluster.address):

        @ray.remote(num_cpus=1)
        def home():
            import unweave.study.on_ray

            return unweave.study.on_ray.__file__

        file = ray.get(home.remote())
    assert "runtime_resources" in file
    assert not file.startswith(str(Path(unweave.__file__).parent))


REMOTE_METHOD = """
from dataclasses import dataclass
import unweave as uw

@dataclass(frozen=True, kw_only=True)
class Remote(uw.methods.BetaVAE):
    name = "remote_vae"
"""
REMOTE_METRIC = """
import dataclasses
from unweave.metrics import METRICS

def remote_spread(codes, factors, seed=0):
    return {"remote_spread": float(codes.std())}

SPREAD = dataclasses.replace(METRICS["mig"], name="remote_spread", function=remote_spread)
"""


def test_plugins_are_sent_to_the_nodes(cluster, add_node, study, tmp_path, monkeypatch):
    """A method in a file and a metric in a package; the nodes can import neither themselves."""
    (tmp_path / "remote_method.py").write_text(REMOTE_METHOD)
    (tmp_path / "remote_metrics").mkdir()
    (tmp_path / "remote_metrics" / "__init__.py").touch()
    (tmp_path / "remote_metrics" / "spreads.py").write_text(REMOTE_METRIC)
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("remote_method", "remote_metrics.spreads"):
        importlib.import_module(module)
    own = replace(
        study,
        methods={"remote_method:Remote": {"beta": 1}},
        metrics=["remote_metrics.spreads:SPREAD"],
        steps=2,
    )
    add_node()
    results = run(own, tmp_path / "out", on=cluster.address, progress=False, scorers=0)
    assert results.failures.to_dict("records") == []
    table = results.table
    assert table["method"].tolist() == ["remote_vae"]
    assert table["remote_spread"].gt(0).all()


def node(name, alive=True, **resources):
    return {
        "NodeID": name,
        "Alive": alive,
        "Resources": resources,
        "NodeManagerHostname": f"host-{name}",
    }


def test_every_gpu_is_a_slot_with_a_share_of_the_cores():
    nodes = [node("a", CPU=64, GPU=8), node("b", CPU=2, GPU=4), node("c", CPU=128)]
    found = slots([*nodes, node("d", alive=False, CPU=8, GPU=8)], None)
    assert [(p.node, p.number, p.gpus, p.cpus, p.scorers) for p in found] == [
        *[("a", number, 1, 8, 7) for number in range(8)],
        *[("b", number, 1, 0.5, 1) for number in range(4)],
    ]
    assert found == slots([*nodes], "cuda")
    assert found[9].name == "host-b (b, GPU 1)"


def test_without_gpus_every_node_is_a_slot():
    nodes = [node("a", CPU=16), node("head", CPU=0)]
    assert slots(nodes, None) == [Slot("a", "host-a", 0, 0, 16)]
    assert slots(nodes, None)[0].scorers == 8
    assert slots(nodes, "cuda") == []
    assert slots([node("g", CPU=4, GPU=2)], "cpu") == [Slot("g", "host-g", 0, 0, 4)]


@pytest.mark.parametrize(
    ("on", "subject", "value"),
    [
        ("moon", "on", "moon"),
        ("http://127.0.0.1:9", "on", "http://127.0.0.1:9"),
        ("127.0.0.1:99999", "on", "127.0.0.1:99999"),
        ("127.0.0.1:²", "on", "127.0.0.1:²"),
        ("127.0.0.1:9", "127.0.0.1:9", None),
        ("ray://127.0.0.1:9", "ray://127.0.0.1:9", None),
        ("no..where:6379", "no..where:6379", None),
    ],
)
def test_addresses_without_a_cluster_are_rejected(study, tmp_path, on, subject, value):
    with pytest.raises(UnweaveError, check=about(subject, value)):
        run(study, tmp_path, on=on, progress=False)


def test_an_invalid_address_is_rejected_before_anything_is_written(study, tmp_path):
    with pytest.raises(UnweaveError, check=about("on", "moon")):
        run(study, tmp_path / "study", on="moon", progress=False)
    assert not (tmp_path / "study").exists()


@pytest.fixture
def listening():
    """A port that accepts connections and optionally sends a reply to each."""
    server, kept, over = socket.create_server(("127.0.0.1", 0)), [], threading.Event()
    server.settimeout(0.05)

    def serve(words):
        while not over.is_set():
            with suppress(TimeoutError):
                kept.append(server.accept()[0])
                kept[-1].sendall(words)

    def start(words):
        thread = threading.Thread(target=serve, args=(words,))
        thread.start()
        threads.append(thread)
        return server.getsockname()[1]

    threads = []
    yield start
    over.set()
    for one in [*threads]:
        one.join()
    for one in [server, *kept]:
        one.close()


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_silent_server_times_out(listening, scheme):
    on = f"{scheme}127.0.0.1:{listening(b'')}"
    start = time.monotonic()
    with pytest.raises(UnweaveError, check=about(on, 0.3)):
        check_reachable(on, 0.3)
    assert time.monotonic() - start < 3


def test_a_server_that_is_not_ray_is_reported(listening):
    on = f"127.0.0.1:{listening(b'HTTP/1.1 400 Bad Request')}"
    with pytest.raises(UnweaveError, check=about(on, b"HTTP/1.1 ")):
        check_reachable(on, 3)


def test_a_real_cluster_answers(cluster):
    check_reachable(cluster.address, 10)


def test_a_cluster_without_resources_is_a_one_line_error(cluster, study, tmp_path):
    with connected(cluster.address):  # nodes of earlier tests may still be shutting down
        until(lambda: sum(node["Alive"] for node in ray.nodes()) == 1)
    with pytest.raises(UnweaveError, check=about("device", None)):
        run(study, tmp_path, on=cluster.address, progress=False)
    with pytest.raises(UnweaveError, check=about("device", "cuda")):
        run(study, tmp_path, on=cluster.address, progress=False, device="cuda")


def test_the_error_without_ray_says_how_to_install_it(study, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnweaveError, check=about("ray"), match=r"unweave\[ray\]"):
        run(study, tmp_path, on="ray", progress=False)


def test_the_display_counts_runs_and_names_workers(study, tmp_path, capsys):
    store = Store(tmp_path)
    prepare(store, study)
    runs = [run for runs in store.ledger.open_runs().values() for run in runs]
    store.ledger.mark(runs[:2], "scored")
    store.ledger.mark(runs[2:3], "failed", "why")
    here = Worker.here()
    for number in range(22):
        store.ledger.heartbeat(
            here._replace(name=str(number)), f"host {number:02}: at step 5 of 9"
        )
    store.ledger.heartbeat(here._replace(name="waiting"))
    line = "3 of 6 runs trained, 2 scored, 1 failed, 22 workers, 1 starting"
    assert summary(store.ledger) == line
    said = details(store.ledger)
    assert said[:2] == ["  host 00: at step 5 of 9", "  host 01: at step 5 of 9"]
    assert said[20:] == ["  and 2 more"]
    with StudyWatch(store.ledger, True) as watch:
        watch.show()
        watch.show()
    with StudyWatch(store.ledger, False) as watch:
        watch.show()
    assert capsys.readouterr().err == f"unweave: {line}\n"
