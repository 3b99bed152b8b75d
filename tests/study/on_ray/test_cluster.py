"""Ray clusters: their addresses, their slots, the code on their nodes, and a local one."""

import importlib
import json
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import ray

import unweave
from tests.raising import about
from tests.study.on_ray.nodes import assert_same_weights, until, weights
from unweave.errors import UnweaveError
from unweave.study import run
from unweave.study.on_ray.cluster import Slot, check_reachable, connected, slots


def test_the_code_is_sent_to_the_nodes(cluster, nodes):
    nodes(1)
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


def test_plugins_are_sent_to_the_nodes(cluster, nodes, study, tmp_path, monkeypatch):
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
    nodes(1)
    results = run(own, tmp_path / "out", on=cluster.address, progress=False, scorers=0)
    assert results.failures.to_dict("records") == []
    table = results.table
    assert table["method"].tolist() == ["remote_vae"]
    assert table["remote_spread"].gt(0).all()


def test_a_local_cluster_gives_the_same_results(part, tmp_path, start):
    """Runs in a subprocess, since a process that started Ray cannot join other clusters."""
    few = replace(part, steps=10)
    (tmp_path / "squares.yaml").write_text(json.dumps(few.to_dict()))
    command = ["study", "run", "squares.yaml", "--on", "ray", "--out", "out", "--scorers", "0"]
    done = start(*command, cwd=tmp_path)
    run(few, tmp_path / "here", progress=False)
    assert done.wait() == 0, done.stderr
    assert "2 runs: 2 scored" in done.stdout
    assert "unweave: 0 of 2 runs trained, 0 scored, 0 workers, 1 starting" in done.stderr
    assert_same_weights(weights(tmp_path / "out"), weights(tmp_path / "here"))


TWO_CLUSTERS = """
from unweave.errors import UnweaveError
from unweave.study.on_ray.cluster import connected

with connected("ray"):
    pass
try:
    with connected("127.0.0.1:9"):
        pass
except UnweaveError as error:
    print(error.subject, error.value, "new process" in str(error))
"""


def test_a_process_that_started_ray_cannot_join_another_cluster(start):
    done = start(code=TWO_CLUSTERS)
    assert done.wait() == 0, done.stderr
    assert done.stdout.split() == ["on", "127.0.0.1:9", "True"]


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


def test_a_cluster_without_resources_is_a_one_line_error(cluster, nodes, study, tmp_path):
    nodes(0)
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
