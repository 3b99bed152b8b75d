"""The ledger: states, claims, workers that die, and many processes at once."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from unweave.errors import UnweaveError
from unweave.study import workers as module
from unweave.study.ledger import STATES, Ledger
from unweave.study.workers import Worker

ELSEWHERE = Worker("away", "another-host", 1)


def planned(path, count=6):
    names = [f"run{place:05}" for place in range(count)]
    book = Ledger(path / "ledger.sqlite")
    book.plan(
        {name: {"seed": place} for place, name in enumerate(names)},
        {name: f"kind{place % 2}" for place, name in enumerate(names)},
    )
    return book, names


def states(book):
    table = book.table()
    return dict(zip(table["run"], table["state"], strict=True))


def test_planning_adds_what_is_missing_and_changes_nothing_else(tmp_path):
    book, names = planned(tmp_path)
    book.mark(names[:2], "scored")
    configs = {name: {"seed": 9} for name in [*names, "new"]}
    assert book.plan(configs, dict.fromkeys(configs, "kind0")) == 1
    assert states(book) == {**dict.fromkeys(names, "planned"), "new": "planned"} | dict.fromkeys(
        names[:2], "scored"
    )
    assert book.configs([names[3], "new"]) == {names[3]: {"seed": 3}, "new": {"seed": 9}}
    assert book.counts() == {state: {"planned": 5, "scored": 2}.get(state, 0) for state in STATES}


def test_open_runs_come_by_kind_and_in_order(tmp_path):
    book, names = planned(tmp_path)
    book.mark([names[0]], "trained")
    assert book.open_runs() == {"kind1": names[1::2], "kind0": names[2::2]}


def test_a_run_is_claimed_once(tmp_path):
    book, names = planned(tmp_path)
    one = Worker.here()
    assert book.claim(one, names[:4]) == names[:4]
    other = Worker("other", one.host, os.getppid())
    assert book.claim(other, names) == names[4:]
    assert book.claim(one, names[:1]) == names[:1]
    assert book.open_runs() == {}


@pytest.mark.parametrize("state", ["trained", "scored", "diverged", "failed"])
def test_what_is_done_is_not_claimed_again(tmp_path, state):
    book, names = planned(tmp_path)
    worker = Worker.here()
    book.claim(worker, names)
    book.mark(names[:3], state, "why" if state == "failed" else None)
    book.release(worker)
    assert book.claim(worker, names) == names[3:]
    errors = book.table()["error"].tolist()
    assert errors[:3] == (["why"] * 3 if state == "failed" else [None] * 3)


def test_a_worker_elsewhere_holds_its_runs_while_it_beats(tmp_path, monkeypatch):
    book, names = planned(tmp_path)
    book.claim(ELSEWHERE, names)
    assert book.claim(Worker.here(), names) == []
    monkeypatch.setattr(module, "SILENCE", 0.2)
    time.sleep(0.1)
    book.beat(ELSEWHERE)
    time.sleep(0.15)
    assert book.claim(Worker.here(), names) == []
    time.sleep(0.1)
    assert book.claim(Worker.here(), names) == names


def test_the_runs_of_a_process_that_is_gone_are_free_at_once(tmp_path):
    book, names = planned(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    book.claim(Worker("dead", Worker.here().host, process.pid), names)
    assert book.open_runs() == {"kind0": names[::2], "kind1": names[1::2]}


def test_training_keeps_the_worker_and_a_result_lets_it_go(tmp_path):
    book, names = planned(tmp_path)
    worker = Worker.here()
    book.claim(worker, names[:2])
    book.mark(names[:2], "training")
    assert book.table()["worker"].tolist()[:2] == [worker.name] * 2
    book.mark(names[:1], "trained")
    assert book.table()["worker"].tolist()[:2] == [None, worker.name]


def test_an_unknown_state_is_refused(tmp_path):
    book, names = planned(tmp_path)
    with pytest.raises(ValueError, match="'lost' is none of planned"):
        book.mark(names, "lost")


def test_a_broken_file_says_how_to_mend_it(tmp_path):
    (tmp_path / "ledger.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(UnweaveError, match=f"study check {tmp_path} --repair"):
        Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(UnweaveError, match="there is no study in"):
        Ledger(tmp_path / "other" / "ledger.sqlite", create=False)


CLAIMER = """
import sys
from pathlib import Path
from unweave.study.ledger import Ledger
from unweave.study.workers import Worker
book, worker = Ledger(Path(sys.argv[1])), Worker.here()
names = [f"run{place:05}" for place in range(int(sys.argv[2]))]
for start in range(0, len(names), 5):
    for run in book.claim(worker, names[start : start + 5]):
        print(run, flush=True)
        book.mark([run], "trained")
"""


def claimer(path, count):
    command = [sys.executable, "-c", CLAIMER, str(path / "ledger.sqlite"), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_many_processes_never_do_a_run_twice(tmp_path):
    _, names = planned(tmp_path, 100)
    processes = [claimer(tmp_path, 100) for _ in range(4)]
    done = [run for process in processes for run in process.communicate()[0].split()]
    assert sorted(done) == names


def test_processes_killed_at_any_moment_leave_a_ledger_that_goes_on(tmp_path):
    book, names = planned(tmp_path, 200)
    chance = random.Random(0)
    for _ in range(6):
        process = claimer(tmp_path, 200)
        process.stdout.readline()
        time.sleep(chance.random() * 0.15)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with sqlite3.connect(book.path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    rest = claimer(tmp_path, 200)
    rest.communicate()
    assert rest.returncode == 0
    assert states(book) == dict.fromkeys(names, "trained")


def test_twelve_thousand_runs_are_planned_and_counted_quickly(tmp_path):
    start = time.perf_counter()
    book, names = planned(tmp_path, 12_600)
    assert time.perf_counter() - start < 5
    start = time.perf_counter()
    assert book.counts()["planned"] == len(book.table()) == 12_600
    assert sum(map(len, book.open_runs().values())) == 12_600
    assert len(book.configs(names)) == 12_600
    assert time.perf_counter() - start < 2


def gone():
    """A worker on this machine whose process has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return Worker("dead", Worker.here().host, process.pid)


def listed(book):
    """The names of all workers in the file, dead or alive."""
    with sqlite3.connect(book.path) as connection:
        return {name for (name,) in connection.execute("SELECT worker FROM workers")}


def test_what_dead_workers_were_training_counts_as_planned(tmp_path):
    book, names = planned(tmp_path)
    dead, here = gone(), Worker.here()
    book.claim(dead, names[:3])
    book.mark(names[:2], "training")
    book.claim(here, names[3:4])
    counts = book.counts()
    assert (counts["planned"], counts["claimed"], counts["training"]) == (5, 1, 0)


def test_dead_workers_are_struck_off_with_what_they_hold(tmp_path):
    book, names = planned(tmp_path)
    dead, here = gone(), Worker.here()
    book.claim(dead, names[:3])
    book.mark(names[:1], "training")
    book.mark(names[2:3], "trained")
    book.claim_trained(dead, 1)
    book.claim(here, names[3:])
    book.beat(ELSEWHERE)
    book.release_gone()
    assert listed(book) == {here.name, ELSEWHERE.name}
    assert list(states(book).values()) == ["planned", "planned", "trained", *["claimed"] * 3]
    assert book.table()["worker"].tolist() == [None] * 3 + [here.name] * 3


@pytest.mark.parametrize(
    "row",
    [(1, 1e300), (1, -1e300), (0, None), (-1, None), (2**70, None)],
)
def test_workers_that_cannot_be_are_not_at_work(row):
    process, seen = row
    host = Worker.here().host
    assert not module.lives(host, process, time.time() if seen is None else seen)
