"""Attempts at tasks: only the last one is current, and none after its task has ended."""

import pandas as pd

from unweave.study.on_ray.progress import (
    ANSWER_SECONDS,
    REPORT_SECONDS,
    SILENT_SECONDS,
    AttemptStatus,
    Progress,
)

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
