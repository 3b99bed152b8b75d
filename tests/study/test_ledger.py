"""The ledger: states, claims, workers that die, and many processes at once."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.study import workers as module
from unweave.study.ledger import STATES, Ledger
from unweave.study.ledger_file import DamagedLedgerError
from unweave.study.workers import Worker

ELSEWHERE = Worker("away", "another-host", 1)


def planned(path, count=6):
    names = [f"run{place:05}" for place in range(count)]
    ledger = Ledger(path / "ledger.sqlite")
    ledger.plan(
        {name: {"seed": place} for place, name in enumerate(names)},
        {name: f"kind{place % 2}" for place, name in enumerate(names)},
    )
    return ledger, names


def states(ledger):
    table = ledger.table()
    return dict(zip(table["run"], table["state"], strict=True))


def test_planning_adds_missing_runs_only(tmp_path):
    ledger, names = planned(tmp_path)
    ledger.mark(names[:2], "scored")
    configs = {name: {"seed": 9} for name in [*names, "new"]}
    assert ledger.plan(configs, dict.fromkeys(configs, "kind0")) == 1
    assert states(ledger) == {**dict.fromkeys(names, "planned"), "new": "planned"} | dict.fromkeys(
        names[:2], "scored"
    )
    assert ledger.configs([names[3], "new"]) == {names[3]: {"seed": 3}, "new": {"seed": 9}}
    assert ledger.counts() == {
        state: {"planned": 5, "scored": 2}.get(state, 0) for state in STATES
    }


def test_open_runs_are_grouped_by_kind_in_order(tmp_path):
    ledger, names = planned(tmp_path)
    ledger.mark([names[0]], "trained")
    assert ledger.open_runs() == {"kind1": names[1::2], "kind0": names[2::2]}


def test_a_run_is_claimed_once(tmp_path):
    ledger, names = planned(tmp_path)
    one = Worker.here()
    assert ledger.claim(one, names[:4]) == names[:4]
    other = Worker("other", one.host, os.getppid())
    assert ledger.claim(other, names) == names[4:]
    assert ledger.claim(one, names[:1]) == names[:1]
    assert ledger.open_runs() == {}


@pytest.mark.parametrize("state", ["trained", "scored", "diverged", "failed"])
def test_finished_runs_are_not_claimed_again(tmp_path, state):
    ledger, names = planned(tmp_path)
    worker = Worker.here()
    ledger.claim(worker, names)
    ledger.mark(names[:3], state, "why" if state == "failed" else None)
    ledger.release(worker)
    assert ledger.claim(worker, names) == names[3:]
    errors = ledger.table()["error"].tolist()
    assert errors[:3] == (["why"] * 3 if state == "failed" else [None] * 3)


def test_a_remote_worker_holds_its_runs_while_it_sends_heartbeats(tmp_path, monkeypatch):
    ledger, names = planned(tmp_path)
    ledger.claim(ELSEWHERE, names)
    assert ledger.claim(Worker.here(), names) == []
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    time.sleep(0.1)
    ledger.heartbeat(ELSEWHERE)
    time.sleep(0.15)
    assert ledger.claim(Worker.here(), names) == []
    time.sleep(0.1)
    assert ledger.claim(Worker.here(), names) == names


def test_the_runs_of_an_ended_process_are_free_at_once(tmp_path):
    ledger, names = planned(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    ledger.claim(Worker("dead", Worker.here().host, process.pid), names)
    assert ledger.open_runs() == {"kind0": names[::2], "kind1": names[1::2]}


def test_runs_keep_their_worker_until_there_is_a_result(tmp_path):
    ledger, names = planned(tmp_path)
    worker = Worker.here()
    ledger.claim(worker, names[:2])
    ledger.mark(names[:2], "training")
    assert ledger.table()["worker"].tolist()[:2] == [worker.name] * 2
    ledger.mark(names[:1], "trained")
    assert ledger.table()["worker"].tolist()[:2] == [None, worker.name]


def test_an_unknown_state_is_rejected(tmp_path):
    ledger, names = planned(tmp_path)
    with pytest.raises(ValueError, match="lost"):
        ledger.mark(names, "lost")


def test_the_error_of_a_damaged_ledger_says_how_to_repair_it(tmp_path):
    (tmp_path / "ledger.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(DamagedLedgerError, match=f"study check {tmp_path} --repair"):
        Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(UnweaveError, check=about(tmp_path / "other" / "ledger.sqlite")):
        Ledger(tmp_path / "other" / "ledger.sqlite", create=False)


CLAIMER = """
import sys
from pathlib import Path
from unweave.study.ledger import Ledger
from unweave.study.workers import Worker
ledger, worker = Ledger(Path(sys.argv[1])), Worker.here()
names = [f"run{place:05}" for place in range(int(sys.argv[2]))]
for start in range(0, len(names), 5):
    for run in ledger.claim(worker, names[start : start + 5]):
        print(run, flush=True)
        ledger.mark([run], "trained")
"""


def claimer(path, count):
    command = [sys.executable, "-c", CLAIMER, str(path / "ledger.sqlite"), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_many_processes_never_claim_a_run_twice(tmp_path):
    _, names = planned(tmp_path, 100)
    processes = [claimer(tmp_path, 100) for _ in range(4)]
    done = [run for process in processes for run in process.communicate()[0].split()]
    assert sorted(done) == names


def test_processes_killed_at_any_time_leave_a_valid_ledger(tmp_path):
    ledger, names = planned(tmp_path, 200)
    chance = random.Random(0)
    for _ in range(6):
        process = claimer(tmp_path, 200)
        process.stdout.readline()
        time.sleep(chance.random() * 0.15)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with sqlite3.connect(ledger.path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    rest = claimer(tmp_path, 200)
    rest.communicate()
    assert rest.returncode == 0
    assert states(ledger) == dict.fromkeys(names, "trained")


def test_twelve_thousand_runs_are_planned_and_counted_quickly(tmp_path):
    start = time.process_time()
    ledger, names = planned(tmp_path, 12_600)
    assert time.process_time() - start < 5
    start = time.process_time()
    assert ledger.counts()["planned"] == len(ledger.table()) == 12_600
    assert sum(map(len, ledger.open_runs().values())) == 12_600
    assert len(ledger.configs(names)) == 12_600
    assert time.process_time() - start < 2


def dead_worker():
    """A worker on this machine whose process has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return Worker("dead", Worker.here().host, process.pid)


def listed(ledger):
    """The names of all workers in the file, dead or alive."""
    with sqlite3.connect(ledger.path) as connection:
        return {name for (name,) in connection.execute("SELECT worker FROM workers")}


def test_runs_of_dead_workers_count_as_planned(tmp_path):
    ledger, names = planned(tmp_path)
    dead, here = dead_worker(), Worker.here()
    ledger.claim(dead, names[:3])
    ledger.mark(names[:2], "training")
    ledger.claim(here, names[3:4])
    counts = ledger.counts()
    assert (counts["planned"], counts["claimed"], counts["training"]) == (5, 1, 0)


def test_dead_workers_and_their_claims_are_removed(tmp_path):
    ledger, names = planned(tmp_path)
    dead, here = dead_worker(), Worker.here()
    ledger.claim(dead, names[:3])
    ledger.mark(names[:1], "training")
    ledger.mark(names[2:3], "trained")
    ledger.claim_trained(dead, 1)
    ledger.claim(here, names[3:])
    ledger.heartbeat(ELSEWHERE)
    ledger.release_dead()
    assert listed(ledger) == {here.name, ELSEWHERE.name}
    assert list(states(ledger).values()) == ["planned", "planned", "trained", *["claimed"] * 3]
    assert ledger.table()["worker"].tolist() == [None] * 3 + [here.name] * 3


@pytest.mark.parametrize(
    "row",
    [(1, 1e300), (1, -1e300), (0, None), (-1, None), (2**70, None)],
)
def test_impossible_workers_are_not_alive(row):
    process, seen = row
    host = Worker.here().host
    assert not module.is_alive(host, process, time.time() if seen is None else seen)
