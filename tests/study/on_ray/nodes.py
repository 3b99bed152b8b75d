"""Nodes of a Ray cluster on this machine, and what tests see and kill of them."""

import os
import signal
import sqlite3
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from safetensors.torch import load_file

from unweave.fleet.checkpoint import checkpoints
from unweave.io.tensors import digest_of, open_tensors, write_tensors
from unweave.io.writing import whole_file

ENOUGH = 80_000_000
"""Bytes of a node's object store."""
STEPS = 45
LONGEST = 300
"""Seconds after which a condition counts as never met; a busy machine needs minutes for some."""


class Nodes:
    """The nodes of a cluster besides its head, with one core each."""

    def __init__(self, cluster):
        self.cluster, self.alive = cluster, []

    def exactly(self, count):
        """Have so many nodes, with as few removed and added as possible, and return them."""
        living = [node for node in self.alive if alive(raylet(node))]
        kept = living[:count]
        for node in self.alive:
            if node not in kept:
                self.cluster.remove_node(node, allow_graceful=False)
        for node in kept:  # tasks of an earlier test may not have ended yet
            until(lambda node=node: not trainers(node))
        size = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": ENOUGH}
        while len(kept) < count:
            kept.append(self.cluster.add_node(**size))
        self.alive = kept
        return kept


class Caught(NamedTuple):
    """A process that was stopped while it trained a fleet with a checkpoint."""

    node: object  # its node
    process: int  # its ID
    place: str  # the display name of its node and device
    runs: set[str]  # the runs of its fleet
    since: float  # when it was stopped


def caught(nodes, kept, ledger):
    """Stop a process in the middle of training.

    `kept` returns the runs of each checkpoint, and `ledger` is the ledger's file. Other processes
    that train are stopped for the second that the driver needs to tell which node trains what.
    """

    def found():
        if not kept():
            return None
        since = time.monotonic()
        stopped = [process for node in nodes for process in trainers(node)]
        for process in stopped:
            send(process, signal.SIGSTOP)
        fleets = [set(runs) for runs in kept()]
        one = None
        if fleets:  # none, if the fleet ended in between
            node, place, runs = until(lambda: held(nodes, ledger, fleets))
            (process,) = trainers(node)
            one = Caught(node, process, place, runs, since)
        for process in stopped:
            if one is None or process != one.process:
                send(process, signal.SIGCONT)
        return one

    return until(found)


def held(nodes, ledger, fleets):
    """A node that trains one of these fleets, by the ledger; it may still name a dead node."""
    for place, runs in holders(ledger).items():
        for node in nodes:
            if runs in fleets and node.node_id[:6] in place:
                return node, place, runs
    return None


def caught_in(nodes, folder):
    """Stop a process in the middle of training for a study in a folder."""
    kept = folder / "runs"
    return caught(nodes, lambda: list(checkpoints(kept).values()), folder / "ledger.sqlite")


def send(process, number):
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


def raylet(node):
    return node.all_processes["raylet"][0].process.pid


def fields(process):
    """The state of a process, its parent and its ticks of CPU time."""
    words = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return words[0], int(words[1]), int(words[11]) + int(words[12])


def alive(process):
    try:
        return fields(process)[0] != "Z"
    except OSError:
        return False


def cpu_seconds(process):
    return fields(process)[2] / os.sysconf("SC_CLK_TCK")


def trainers(node):
    """The processes of a node that train a fleet."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            title = (entry / "cmdline").read_bytes()
            if title.startswith(b"ray::train") and fields(entry.name)[1] == raylet(node):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def holders(ledger):
    """The runs that are being trained, by the display name of the node."""
    found = {}
    with closing(sqlite3.connect(ledger)) as connection:
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

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    yield came
    thread.join(LONGEST)
    assert came, "it did not end"
    if isinstance(came[0], BaseException):
        raise came[0]


def until(condition):
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


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


def leave_a_mark(path):
    """Add a row to the loss curve in a checkpoint that training would not write."""
    with open_tensors(path) as file:
        facts, tensors = file.facts, file.tensors()
    assert 0 < int(tensors["step"]) < STEPS
    mark = torch.full((1, *tensors["curve"].shape[1:]), -1.0)
    tensors["curve"] = torch.cat([mark, tensors["curve"]])
    with whole_file(path) as temporary:
        write_tensors(temporary, tensors, {**facts, "sha256": digest_of(tensors)})


def mark_checkpoint_of(runs, folder):
    """Leave a mark in the checkpoint of a fleet."""
    kept = checkpoints(folder / "runs")
    leave_a_mark(next(path for path, held in kept.items() if set(held) == runs))


def marked(folder):
    """The runs that were resumed from a checkpoint with such a mark."""
    curves = {path.parent.name: pd.read_parquet(path) for path in folder.glob("runs/*/curve.*")}
    return {name for name, curve in curves.items() if (curve["step"] == -1).any()}
