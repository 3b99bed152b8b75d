"""Studies on real Ray nodes: the same weights whatever is killed, and no run twice at once."""

import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
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
from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet.checkpoint import checkpoints
from unweave.io.tensors import digest_of, open_tensors, write_tensors
from unweave.io.writing import whole_file
from unweave.study import Study, load, run
from unweave.study.ledger import Ledger
from unweave.study.on_ray import crew, far_ledger
from unweave.study.on_ray.cluster import (
    ANSWER_SECONDS,
    connected,
    demand_answer,
    start_actor,
)
from unweave.study.on_ray.crew import Crew
from unweave.study.on_ray.far_ledger import CALLS, FarLedger, Mailbox, Request, answer
from unweave.study.on_ray.hand import Hand, Job
from unweave.study.on_ray.places import Place, places
from unweave.study.remote import open_store
from unweave.study.running import prepare
from unweave.study.status import StudyWatch, details, summary
from unweave.study.store import Store
from unweave.study.workers import Worker

ENOUGH = 80_000_000
QUICK = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
STEPS = 45
FAREWELL = 3.0
"""Shorter than it is, and longer than it takes others to begin with what they may."""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Three fleets of two models each: squares of 32 × 32 pixels, wherever they may be."""
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
    """A head without room for work, so that nodes can come and go."""
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
    """Adds nodes with one core each, which are gone afterwards, and are looked at often."""
    monkeypatch.setattr(crew, "NODES_SECONDS", 0.5)
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


def hands(node):
    """The processes of a node that work on a study."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            title = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == raylet(node) and title.startswith(b"ray::Hand"):
            found.append(int(entry.name))
    return found


def holders(ledger):
    """Who trains what: the runs of each worker."""
    found = {}
    table = ledger.table()
    for name, state, worker in zip(table["run"], table["state"], table["worker"], strict=True):
        if worker is not None and state in ("claimed", "training"):
            found.setdefault(worker, set()).add(name)
    return found


@contextmanager
def meanwhile(job):
    """Do something beside the block; what it came to is in the list once the block has ended."""
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
    """A worker that has written a checkpoint of what it trains, and its runs."""
    if not (folder / "ledger.sqlite").exists():
        return None
    kept = [set(runs) for runs in checkpoints(folder / "runs").values()]
    now = holders(Ledger(folder / "ledger.sqlite"))
    return next(((worker, runs) for worker, runs in now.items() if runs in kept), None)


def taken_over(folder, worker, runs):
    """Who holds runs that another worker held."""
    now = holders(Ledger(folder / "ledger.sqlite"))
    return next((other for other, held in now.items() if other != worker and held & runs), None)


def weights(folder):
    return {
        path.parent.name: load_file(path)
        for path in sorted((folder / "runs").glob("*/weights.safetensors"))
    }


def assert_same_weights(one, other, bits=()):
    """Equal weights; to the last bit for some runs, whose fleets were the same."""
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].keys() == other[name].keys()
        close = {"rtol": 0, "atol": 0} if name in bits else {"rtol": 1e-5, "atol": 1e-5}
        for key in one[name]:
            torch.testing.assert_close(one[name][key], other[name][key], **close)


@pytest.fixture(scope="module")
def undisturbed(study, tmp_path_factory):
    """The weights that one process comes to, left alone."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(study, folder, progress=False)
    return weights(folder)


def leave_a_mark(path):
    """Add to a checkpoint a row of the curve that no training would write."""
    with open_tensors(path) as file:
        facts, tensors = file.facts, file.tensors()
    assert 0 < int(tensors["step"]) < STEPS
    mark = torch.full((1, *tensors["curve"].shape[1:]), -1.0)
    tensors["curve"] = torch.cat([mark, tensors["curve"]])
    with whole_file(path) as temporary:
        write_tensors(temporary, tensors, {**facts, "sha256": digest_of(tensors)})


def marked(folder):
    """The runs whose training went through a checkpoint with such a mark."""
    curves = {path.parent.name: pd.read_parquet(path) for path in folder.glob("runs/*/curve.*")}
    return {name for name, curve in curves.items() if (curve["step"] == -1).any()}


@pytest.mark.parametrize("outlived", [False, True], ids=["node", "raylet"])
def test_a_node_killed_in_the_middle_of_a_fleet_changes_nothing(
    cluster, add_node, study, undisturbed, tmp_path, capfd, outlived, monkeypatch
):
    """The node dies with its worker, or the worker outlives it and has time to hear of that."""
    monkeypatch.setattr(crew, "FAREWELL_SECONDS", FAREWELL)
    part, parted = Crew._part, []
    monkeypatch.setattr(Crew, "_part", lambda *of: (parted.append(time.monotonic()), part(*of)))
    nodes = [add_node(), add_node()]

    def kill():
        worker, runs = until(lambda: checkpointed(tmp_path))
        node = next(node for node in nodes if node.node_id[:12] in worker)
        (hand,) = hands(node)
        os.kill(hand, signal.SIGSTOP if outlived else signal.SIGKILL)
        os.kill(raylet(node), signal.SIGKILL)
        if not outlived:
            until(lambda: not alive(hand))
            kept = checkpoints(tmp_path / "runs")
            leave_a_mark(next(path for path, held in kept.items() if set(held) == runs))
        heir = until(lambda: taken_over(tmp_path, worker, runs))
        assert time.monotonic() - parted[0] > FAREWELL
        if outlived:
            with suppress(ProcessLookupError):  # the kernel may hang up on who is stopped
                os.kill(hand, signal.SIGCONT)
            until(lambda: not alive(hand))
        return node, runs, heir

    with meanwhile(kill) as came:
        results = run(study, tmp_path, on=cluster.address, checkpoint_every=0.1, scorers=0)
    node, runs, heir = came[0]
    other = nodes[1 - nodes.index(node)]
    assert other.node_id[:12] in heir
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


def test_a_study_at_a_url_goes_on_from_the_checkpoint_there(
    cluster, add_node, study, undisturbed, tmp_path
):
    url = f"file://{tmp_path / 'away'}"
    store = open_store(url)
    nodes = [add_node(), add_node()]

    def handed_in():
        kept = [set(runs) for runs in store.interrupted()]
        if not kept:  # before that there may be no ledger yet
            return None
        now = holders(store.ledger)
        return next(((worker, runs) for worker, runs in now.items() if runs in kept), None)

    def kill():
        worker, runs = until(handed_in)
        node = next(node for node in nodes if node.node_id[:12] in worker)
        (hand,) = hands(node)
        os.kill(hand, signal.SIGSTOP)
        fleet = next(one for one in store._fleets().values() if set(one.runs) == runs)
        leave_a_mark(tmp_path / "away" / "fleets" / fleet.file)
        os.kill(hand, signal.SIGKILL)
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


def test_runs_with_which_workers_die_again_and_again_are_given_up(
    cluster, add_node, study, tmp_path
):
    node, bare = add_node(), replace(study, metrics=())

    def kill():
        first, doomed = until(lambda: checkpointed(tmp_path))
        seen = [first]
        while True:
            for process in hands(node):
                os.kill(process, signal.SIGKILL)
            if len(seen) == 3:
                return doomed
            seen.append(until(lambda: new_holder(seen, doomed)))

    def new_holder(seen, doomed):
        now = holders(Ledger(tmp_path / "ledger.sqlite"))
        return next((w for w, runs in now.items() if w not in seen and runs & doomed), None)

    with meanwhile(kill) as came:
        results = run(bare, tmp_path, on=cluster.address, progress=False, checkpoint_every=0.1)
    assert results.counts["failed"] == 2
    assert results.counts["scored"] == 4
    failures = results.failures
    assert set(failures["run"]) == came[0]
    assert failures["error"].str.contains("its worker died 3 times").all()
    again = run(bare, tmp_path, progress=False)
    assert again.counts["scored"] == 6


def test_stopped_it_keeps_a_checkpoint_and_goes_on_from_there(
    cluster, add_node, study, tmp_path_factory, tmp_path
):
    """A worker hears of it when it asks something, within seconds."""
    add_node()
    ledger = tmp_path / "ledger.sqlite"
    long = replace(study, methods={"beta_vae": {"beta": [1, 4]}}, steps=100, metrics=())
    undisturbed = tmp_path_factory.mktemp("undisturbed")

    def interrupt():
        until(lambda: ledger.exists() and Ledger(ledger).counts()["training"])
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGTERM)
    with (
        meanwhile(interrupt),
        pytest.raises(InterruptedTrainingError, match="run the same again to go on"),
    ):
        run(long, tmp_path, on=cluster.address, progress=False, checkpoint_every=1e9)
    assert signal.getsignal(signal.SIGTERM) == before
    kept = list(checkpoints(tmp_path / "runs").values())
    assert len(kept) == 1
    assert len(kept[0]) == Ledger(ledger).counts()["planned"] == 2
    assert not Ledger(ledger).workers()
    run(long, tmp_path, progress=False)
    run(long, undisturbed, progress=False)
    assert_same_weights(weights(tmp_path), weights(undisturbed), kept[0])


def test_a_ray_of_its_own_does_the_same(cluster, study, undisturbed, tmp_path, start):
    """In a process of its own: one that has had its own Ray cannot join all others any more."""
    part = replace(study, methods={"beta_vae": {"beta": [1, 4]}})
    (tmp_path / "squares.yaml").write_text(json.dumps(part.to_dict()))
    command = ["study", "run", "squares.yaml", "--on", "ray", "--out", "out", "--scorers", "0"]
    done = start(*command, cwd=tmp_path)
    assert done.wait() == 0, done.stderr
    assert "2 runs: 2 scored" in done.stdout
    assert "unweave: 0 of 2 runs trained, 0 scored, 0 workers, 1 starting" in done.stderr
    found = weights(tmp_path / "out")
    assert_same_weights(found, {name: undisturbed[name] for name in found})


@contextmanager
def answering(mailbox, ledger):
    """The process that runs a study, as far as the ledger goes."""
    over = threading.Event()

    def body():
        answers = {}
        while not over.is_set() or answers:
            requests = ray.get(mailbox.exchange.remote(answers, 0.05))
            answers = {request.number: answer(ledger, request) for request in requests}

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


NAMES = [f"run{place}" for place in range(4)]


def planned(path):
    ledger = Ledger(path)
    ledger.plan({n: {"seed": k} for k, n in enumerate(NAMES)}, dict.fromkeys(NAMES, "kind"))
    return ledger


def said_by(ledger, worker):
    """What a ledger answers to every call of workers, times left out."""
    names = NAMES
    said = [
        ledger.claim(worker, names[:3]),
        ledger.mark(names[:1], "trained", None, [{"mig": 0.5}]),
        ledger.mark(names[1:2], "failed", "why"),
        ledger.claim_trained(worker, 2),
        ledger.beat(worker, "resting"),
        [row[:2] for row in ledger.workers()],
        ledger.open_runs(),
        ledger.busy(),
        ledger.counts(),
        ledger.states(),
        ledger.configs(names[2:]),
        ledger.note_speed("kind", "device", 0.25),
        ledger.speeds("device"),
        ledger.reopen(names[1:2], "planned"),
        ledger.release(worker),
        ledger.counts(),
    ]
    with pytest.raises(UnweaveError, match="cannot be used"):
        ledger.claim(worker, [object()])
    return said


def test_a_ledger_from_afar_says_what_the_ledger_says(cluster, tmp_path):
    worker = Worker.here()
    near = said_by(planned(tmp_path / "near.sqlite"), worker)
    with connected(cluster.address):
        mailbox = start_actor(Mailbox, ray.get_runtime_context().get_node_id(), num_cpus=0)
        there = FarLedger(mailbox, worker.name, "there")
        with answering(mailbox, planned(tmp_path / "far.sqlite")):
            assert said_by(there, worker) == near
        with pytest.raises(AttributeError, match="a ledger has no 'path'"):
            there.path  # noqa: B018
        ray.kill(mailbox)
        with pytest.raises(UnweaveError, match="the process that runs the study is gone"):
            there.counts()


@pytest.mark.parametrize("call", ["plan", "path", "__init__", "_open", "__class__", "rows"])
def test_calls_that_workers_do_not_need_are_not_answered(tmp_path, call):
    said = answer(planned(tmp_path / "ledger.sqlite"), Request(0, "worker", call, ()))
    assert said.value is None
    assert "cannot call" in said.error


def test_calls_of_workers_are_those_of_a_ledger():
    assert all(callable(getattr(Ledger, name)) for name in CALLS)
    assert all(not name.startswith("_") for name in CALLS)


def test_a_worker_with_nothing_to_do_asks_less_until_it_has_done_something(
    cluster, tmp_path, monkeypatch
):
    ledger, worker = Ledger(tmp_path / "ledger.sqlite"), Worker.here()
    ledger.plan({"run": {}}, {"run": "kind"})
    ledger.claim(worker, ["run"])
    with connected(cluster.address):
        mailbox = start_actor(Mailbox, ray.get_runtime_context().get_node_id(), num_cpus=0)
        with answering(mailbox, ledger):
            there = FarLedger(mailbox, worker.name, "there")
            assert (there.claim_trained(worker, 1), there.open_runs(), there.busy()) == (
                [],
                {},
                True,
            )
            ledger.mark(["run"], "trained")
            assert there.claim_trained(worker, 1) == []
            there.mark(["run"], "trained")
            assert there.claim_trained(worker, 1) == ["run"]
            monkeypatch.setattr(far_ledger, "PAUSE_SECONDS", 0.0)
            assert there.claim_trained(worker, 1, ["run"]) == []
            ledger.mark(["run"], "trained")
            assert there.claim_trained(worker, 1) == ["run"]


def test_the_code_travels_with_the_job(cluster, add_node):
    add_node()
    with connected(cluster.address):

        @ray.remote(num_cpus=1)
        def home():
            import unweave.study.on_ray

            return unweave.study.on_ray.__file__

        file = ray.get(home.remote())
    assert "runtime_resources" in file
    assert not file.startswith(str(Path(unweave.__file__).parent))


def node(name, alive=True, **resources):
    return {
        "NodeID": name,
        "Alive": alive,
        "Resources": resources,
        "NodeManagerHostname": f"host-{name}",
    }


def test_every_gpu_gets_a_worker_and_its_share_of_the_cores():
    nodes = [node("a", CPU=64, GPU=8), node("b", CPU=2, GPU=4), node("c", CPU=128)]
    found = places([*nodes, node("d", alive=False, CPU=8, GPU=8)], None)
    assert [(p.node, p.number, p.gpus, p.cpus, p.scorers) for p in found] == [
        *[("a", number, 1, 8, 7) for number in range(8)],
        *[("b", number, 1, 0.5, 1) for number in range(4)],
    ]
    assert found == places([*nodes], "cuda")
    assert found[9].name == "host-b (b, GPU 1)"


def test_without_gpus_every_node_gets_a_worker():
    nodes = [node("a", CPU=16), node("head", CPU=0)]
    assert places(nodes, None) == [Place("a", "host-a", 0, 0, 16)]
    assert places(nodes, None)[0].scorers == 8
    assert places(nodes, "cuda") == []
    assert places([node("g", CPU=4, GPU=2)], "cpu") == [Place("g", "host-g", 0, 0, 4)]


def test_a_folder_that_a_worker_does_not_see_is_said_so(tmp_path):
    job = Job(str(tmp_path), ".ray-token", {})
    said = Hand().work(None, Worker.here(), Place("abcdefgh", "away", 0, 0, 1), job)
    assert said.startswith(f"away (abcdef, CPU 0) does not see {tmp_path}; keep the study in a")


@pytest.mark.parametrize(
    ("on", "sentence"),
    [
        ("moon", "here, ray, auto, host:port or ray://host:port, but got 'moon'"),
        ("127.0.0.1:9", "no Ray cluster answers at 127.0.0.1:9 "),
        ("ray://127.0.0.1:9", "no Ray cluster answers at ray://127.0.0.1:9 "),
        ("http://127.0.0.1:9", "here, ray, auto, host:port or ray://host:port, but got 'http:"),
        ("127.0.0.1:99999", "but got '127.0.0.1:99999'"),
        ("127.0.0.1:²", "but got '127.0.0.1:²'"),
        ("no..where:6379", "no Ray cluster answers at no..where:6379 "),
    ],
)
def test_no_cluster_there_is_one_sentence(study, tmp_path, on, sentence):
    with pytest.raises(UnweaveError, match=sentence):
        run(study, tmp_path, on=on, progress=False)


def test_an_address_that_is_none_is_refused_before_anything_is_written(study, tmp_path):
    with pytest.raises(UnweaveError, match="but got 'moon'"):
        run(study, tmp_path / "study", on="moon", progress=False)
    assert not (tmp_path / "study").exists()


@pytest.fixture
def listening():
    """A port that accepts connections, and says something to each if it is told to."""
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
def test_what_accepts_and_stays_silent_is_given_up_soon(listening, scheme):
    on = f"{scheme}127.0.0.1:{listening(b'')}"
    start = time.monotonic()
    with pytest.raises(UnweaveError, match=r"nothing was heard for 0\.3 s"):
        demand_answer(on, 0.3)
    assert time.monotonic() - start < 3


def test_what_answers_and_is_not_ray_is_said_so(listening):
    on = f"127.0.0.1:{listening(b'HTTP/1.1 400 Bad Request')}"
    with pytest.raises(UnweaveError, match="something else"):
        demand_answer(on, 3)


def test_waiting_for_a_cluster_takes_a_minute_at_most():
    assert 2 * ANSWER_SECONDS < 60


def test_a_real_cluster_answers(cluster):
    demand_answer(cluster.address, 10)


def test_a_cluster_without_what_is_needed_is_one_sentence(cluster, study, tmp_path):
    with connected(cluster.address):  # nodes of the tests before may be about to go
        until(lambda: sum(node["Alive"] for node in ray.nodes()) == 1)
    with pytest.raises(UnweaveError, match="has no node with a core"):
        run(study, tmp_path, on=cluster.address, progress=False)
    with pytest.raises(UnweaveError, match="has no GPU; leave the device out"):
        run(study, tmp_path, on=cluster.address, progress=False, device="cuda")


def test_without_ray_it_says_how_to_install_it(study, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnweaveError, match=r"pip install 'unweave\[ray\]'"):
        run(study, tmp_path, on="ray", progress=False)


def test_the_display_counts_runs_and_names_workers(study, tmp_path, capsys):
    store = Store(tmp_path)
    prepare(store, study)
    runs = [run for runs in store.ledger.open_runs().values() for run in runs]
    store.ledger.mark(runs[:2], "scored")
    store.ledger.mark(runs[2:3], "failed", "why")
    here = Worker.here()
    for number in range(22):
        store.ledger.beat(here._replace(name=str(number)), f"host {number:02}: at step 5 of 9")
    line = "3 of 6 runs trained, 2 scored, 1 failed, 22 workers, 1 starting"
    assert summary(store.ledger, 1) == line
    said = details(store.ledger)
    assert said[:2] == ["  host 00: at step 5 of 9", "  host 01: at step 5 of 9"]
    assert said[20:] == ["  and 2 more"]
    with StudyWatch(store.ledger, True) as watch:
        watch.show(1)
        watch.show(1)
    with StudyWatch(store.ledger, False) as watch:
        watch.show(1)
    assert capsys.readouterr().err == f"unweave: {line}\n"
