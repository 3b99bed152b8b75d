"""Attempts at tasks: only the last one is current, and none after its task has ended."""

import subprocess
import sys

import pandas as pd

from unweave.study.on_ray.progress import (
    ANSWER_SECONDS,
    REPORT_SECONDS,
    SILENT_SECONDS,
    AttemptStatus,
    Progress,
    StudyWatch,
    details,
    summary,
)
from unweave.study.running import prepare
from unweave.study.store import Store
from unweave.study.workers import Worker

FIRST = ("there (abc, GPU 0)", "abc", "there", 11)
SECOND = ("here (def, GPU 1)", "def", "here", 22)


def test_an_attempt_is_current_until_the_next_one_starts():
    progress = Progress()
    assert progress.begin("task", *FIRST) == 1
    assert progress.report("task", 1, "at step 5")
    status = progress.of(["task"])["task"]
    assert status._replace(seconds=0.0, silent=0.0) == AttemptStatus(1, *FIRST, "at step 5")
    assert progress.begin("task", *SECOND) == 2
    assert not progress.report("task", 1, "at step 6")
    assert progress.report("task", 2, "at step 5")
    status = progress.of(["task"])["task"]
    assert (status.number, status.place, status.doing) == (2, SECOND[0], "at step 5")


def test_no_attempt_is_current_after_its_task_was_closed():
    progress = Progress()
    progress.begin("task", *FIRST)
    progress.close("task")
    assert not progress.report("task", 1, "at step 5")
    assert progress.begin("task", *SECOND) == 0
    assert progress.of(["task"]) == {}


def test_an_old_attempt_does_not_end_the_current_one():
    progress = Progress()
    progress.begin("task", *FIRST)
    progress.end("task", 1)
    assert progress.of(["task"])["task"].ended
    progress.begin("task", *SECOND)
    progress.end("task", 1)
    assert not progress.of(["task"])["task"].ended


def test_tasks_that_have_not_started_have_no_status():
    progress = Progress()
    progress.begin("other", *FIRST)
    assert list(progress.of(["task", "other"])) == ["other"]


def test_only_tables_of_the_current_attempt_are_taken_once():
    progress = Progress()
    progress.begin("task", *FIRST)
    tables = [pd.DataFrame({"step": [step]}) for step in (100, 200, 300)]
    progress.forward("task", 1, "on_window", tables[0])
    progress.forward("task", 1, "on_diagnostics", tables[1])
    progress.begin("task", *SECOND)
    progress.forward("task", 1, "on_window", tables[2])
    progress.forward("other", 1, "on_window", tables[2])
    assert progress.take() == [("on_window", tables[0]), ("on_diagnostics", tables[1])]
    assert progress.take() == []


def test_an_attempt_without_an_answer_exits_before_the_next_one_starts():
    assert SILENT_SECONDS > ANSWER_SECONDS + REPORT_SECONDS


def test_the_process_of_the_actor_imports_nothing_slow():
    code = "import sys, unweave.study.on_ray.progress; print({'torch', 'pandas'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


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
