"""Progress of a study on Ray: reports of tasks, the current attempt at each task, and the display.

Attempts also forward the tables for callbacks, which the driver takes from the actor. The actor
has a process of its own, so nothing is imported here that takes seconds.

An unreachable node may still run a task that was restarted elsewhere. Every attempt therefore
registers with an actor and asks it every few seconds whether it is still the current one. If not,
or if there is no answer, it exits immediately and writes nothing more. The next attempt starts
when the previous one has ended, or has been silent for long enough to have exited.
"""

import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rich.live import Live
from rich.text import Text

from unweave.progress import live_display, say
from unweave.study.ledger import Ledger
from unweave.study.workers import process_exists
from unweave.text import counted, printable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Attempt", "AttemptStatus", "Progress", "StudyWatch"]

REPORT_SECONDS = 2.0
ANSWER_SECONDS = 10.0
"""Time after which an attempt without an answer exits."""
SILENT_SECONDS = ANSWER_SECONDS + REPORT_SECONDS + 3.0
"""Silence after which an attempt has ended, or will end before it writes anything."""
LINE_SECONDS, LIVE_SECONDS = 30.0, 1.0
SHOWN = 20
DONE = ("trained", "scored", "diverged", "failed")


class AttemptStatus(NamedTuple):
    """Status of the last attempt at a task."""

    number: int  # number of the attempt, from 1
    place: str  # display name of the host and device
    node: str  # Ray's ID of the node
    host: str  # host name of the machine
    process: int  # process ID
    doing: str = ""  # current activity and progress
    seconds: float = 0.0  # seconds between its first and its last report
    silent: float = 0.0  # seconds since its last report
    ended: bool = False  # whether it has ended


class Progress:
    """A Ray actor that tracks the current attempt at every task."""

    def __init__(self) -> None:
        self.attempts: dict[str, AttemptStatus] = {}
        self.times: dict[str, tuple[float, float]] = {}
        self.closed: set[str] = set()
        self.tables: list[tuple[str, pd.DataFrame]] = []

    def begin(self, task: str, place: str, node: str, host: str, process: int) -> int:
        """Register an attempt at a task and return its number, or 0 if the task is closed."""
        if task in self.closed:
            return 0
        number = self.attempts[task].number + 1 if task in self.attempts else 1
        self.attempts[task] = AttemptStatus(number, place, node, host, process)
        self.times[task] = (time.monotonic(), time.monotonic())
        return number

    def report(self, task: str, number: int, doing: str) -> bool:
        """Record the activity of an attempt; return whether it is still the current one."""
        last = self.attempts.get(task)
        if last is None or last.number != number:
            return False
        self.attempts[task] = last._replace(doing=doing)
        self.times[task] = (self.times[task][0], time.monotonic())
        return True

    def forward(self, task: str, number: int, hook: str, table: "pd.DataFrame") -> None:
        """Store a table of the current attempt for a method of the driver's callbacks."""
        last = self.attempts.get(task)
        if last is not None and last.number == number:
            self.tables.append((hook, table))

    def take(self) -> "list[tuple[str, pd.DataFrame]]":
        """Return all tables since the last call, in order."""
        tables, self.tables = self.tables, []
        return tables

    def end(self, task: str, number: int) -> None:
        """Record that an attempt has ended."""
        last = self.attempts.get(task)
        if last is not None and last.number == number:
            self.attempts[task] = last._replace(ended=True)

    def close(self, task: str) -> None:
        """Invalidate all attempts at a task."""
        self.closed.add(task)
        self.attempts.pop(task, None)

    def of(self, tasks: Sequence[str]) -> dict[str, AttemptStatus]:
        """The status of the given tasks, if they have started."""
        found = {}
        for task in tasks:
            if task in self.attempts:
                first, last = self.times[task]
                found[task] = self.attempts[task]._replace(
                    seconds=last - first, silent=time.monotonic() - last
                )
        return found


class Attempt:
    """The attempt of this process at a task; exits the process when it is no longer current."""

    def __init__(self, progress: Any, task: str, doing: str) -> None:
        import ray

        self.ray: Any = ray
        self.progress, self.task, self.doing = progress, task, doing
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._send_reports, daemon=True)

    def __enter__(self) -> Self:
        host, node = socket.gethostname(), self.ray.get_runtime_context().get_node_id()
        gpus = self.ray.get_gpu_ids()
        place = f"{host} ({node[:6]}, {f'GPU {gpus[0]}' if gpus else 'CPU 0'})"
        while self._previous_may_write(host):
            time.sleep(0.2)
        self.number = self.ray.get(
            self.progress.begin.remote(self.task, place, node, host, os.getpid())
        )
        if not self.number:
            os._exit(1)
        self.answered = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.ray.get(self.progress.end.remote(self.task, self.number))

    def report(self, doing: str) -> None:
        """Update the activity; after a suspension, check first that this attempt is current."""
        self.doing = doing
        if time.monotonic() - self.answered > ANSWER_SECONDS:
            self._send_report()

    def _previous_may_write(self, host: str) -> bool:
        """Whether the previous attempt may still be running."""
        before = self.ray.get(self.progress.of.remote([self.task])).get(self.task)
        if before is None or before.ended or before.silent > SILENT_SECONDS:
            return False
        return bool(before.host != host or process_exists(before.process))

    def _send_reports(self) -> None:
        while not self.over.wait(REPORT_SECONDS):
            self._send_report()

    def _send_report(self) -> None:
        answer = self.progress.report.remote(self.task, self.number, self.doing)
        try:
            current = self.ray.get(answer, timeout=ANSWER_SECONDS)
        except self.ray.exceptions.RayError:
            current = False
        if not current and not self.over.is_set():
            # Another attempt may have taken over the runs, so nothing more may be written.
            os._exit(1)
        self.answered = time.monotonic()


class StudyWatch:
    """Live display on a terminal and in a notebook; otherwise, one line every half minute."""

    def __init__(self, ledger: Ledger, shown: bool) -> None:
        self.ledger, self.shown = ledger, shown
        self.live: Live | None = None
        self.due = time.monotonic()

    def __enter__(self) -> Self:
        self.live = live_display() if self.shown else None
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self) -> None:
        """Update the display if it is due."""
        if not self.shown or time.monotonic() < self.due:
            return
        if self.live is None:
            say(summary(self.ledger))
            self.due = time.monotonic() + LINE_SECONDS
        else:
            lines = [summary(self.ledger), *details(self.ledger)]
            self.live.update(Text("\n".join(lines)), refresh=True)
            self.due = time.monotonic() + LIVE_SECONDS


def summary(ledger: Ledger) -> str:
    """Progress of a study on one line; workers without activity are waiting for resources."""
    counts, workers = ledger.counts(), ledger.workers()
    waiting = sum(not doing for *_, doing in workers)
    parts = [
        f"{sum(counts[state] for state in DONE):,} of {sum(counts.values()):,} runs trained",
        f"{counts['scored']:,} scored",
    ]
    parts += [f"{counts[state]:,} {state}" for state in ("diverged", "failed") if counts[state]]
    parts.append(counted(len(workers) - waiting, "worker"))
    if waiting:
        parts.append(f"{waiting} starting")
    return ", ".join(parts)


def details(ledger: Ledger) -> list[str]:
    """The activity of each worker, one line each."""
    active = sorted(doing for *_, doing in ledger.workers() if doing)
    more = [f"  and {len(active) - SHOWN} more"] if len(active) > SHOWN else []
    return [f"  {printable(doing)}" for doing in active[:SHOWN]] + more
