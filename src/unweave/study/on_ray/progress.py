"""How far tasks on Ray are, and which attempt at each of them counts.

A node that is out of reach may still run a task that was restarted elsewhere. So every attempt
registers with an actor and asks it every few seconds whether it still counts; one that does not,
or that gets no answer, ends at once and writes nothing more. The next attempt begins once the one
before has ended, or has been silent for longer than that takes.
"""

import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from unweave.study.workers import runs_here

__all__ = ["Attempt", "AttemptStatus", "Progress"]

REPORT_SECONDS = 2.0
ANSWER_SECONDS = 10.0
"""How long an attempt goes on without an answer."""
SILENT_SECONDS = ANSWER_SECONDS + REPORT_SECONDS + 3.0
"""An attempt that was silent for so long has ended, or ends before it writes anything."""


class AttemptStatus(NamedTuple):
    """What the last attempt at a task has said of itself.

    Args:
        number: Which attempt it is, from 1.
        place: Where it runs, for people.
        node: The same as Ray's name of the node.
        host: The name of the machine.
        process: The number of the process there.
        doing: What it does, and how far it is.
        seconds: Between its first and its last report.
        silent: Seconds since its last report.
        ended: Whether it has ended.
    """

    number: int
    place: str
    node: str
    host: str
    process: int
    doing: str = ""
    seconds: float = 0.0
    silent: float = 0.0
    ended: bool = False


class Progress:
    """The last attempt at every task; an actor of Ray."""

    def __init__(self) -> None:
        self.attempts: dict[str, AttemptStatus] = {}
        self.times: dict[str, tuple[float, float]] = {}
        self.closed: set[str] = set()

    def begin(self, task: str, place: str, node: str, host: str, process: int) -> int:
        """Register an attempt at a task; which one it is, or 0 where none counts any more."""
        if task in self.closed:
            return 0
        number = self.attempts[task].number + 1 if task in self.attempts else 1
        self.attempts[task] = AttemptStatus(number, place, node, host, process)
        self.times[task] = (time.monotonic(), time.monotonic())
        return number

    def report(self, task: str, number: int, doing: str) -> bool:
        """Note what an attempt does; whether it still counts."""
        last = self.attempts.get(task)
        if last is None or last.number != number:
            return False
        self.attempts[task] = last._replace(doing=doing)
        self.times[task] = (self.times[task][0], time.monotonic())
        return True

    def end(self, task: str, number: int) -> None:
        """Note that an attempt has ended."""
        last = self.attempts.get(task)
        if last is not None and last.number == number:
            self.attempts[task] = last._replace(ended=True)

    def close(self, task: str) -> None:
        """Note that no attempt at a task counts any more."""
        self.closed.add(task)
        self.attempts.pop(task, None)

    def of(self, tasks: Sequence[str]) -> dict[str, AttemptStatus]:
        """The last attempt at each of some tasks, as far as they have begun."""
        found = {}
        for task in tasks:
            if task in self.attempts:
                first, last = self.times[task]
                found[task] = self.attempts[task]._replace(
                    seconds=last - first, silent=time.monotonic() - last
                )
        return found


class Attempt:
    """This process's attempt at a task: reports, and ends the process when it no longer counts.

    Args:
        progress: The actor.
        task: The name of the task.
        doing: What is done at first.
    """

    def __init__(self, progress: Any, task: str, doing: str) -> None:
        self.progress, self.task, self.doing = progress, task, doing
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._report_on, daemon=True)

    def __enter__(self) -> Self:
        import ray

        host, node = socket.gethostname(), ray.get_runtime_context().get_node_id()
        gpus = ray.get_gpu_ids()
        place = f"{host} ({node[:6]}, {f'GPU {gpus[0]}' if gpus else 'CPU 0'})"
        while self._other_may_write(host):
            time.sleep(0.2)
        self.number = ray.get(
            self.progress.begin.remote(self.task, place, node, host, os.getpid())
        )
        if not self.number:
            os._exit(1)
        self.answered = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        self.over.set()
        ray.get(self.progress.end.remote(self.task, self.number))

    def report(self, doing: str) -> None:
        """Say what is done now; where this process was asleep, ask first whether it counts."""
        self.doing = doing
        if time.monotonic() - self.answered > ANSWER_SECONDS:
            self._ask()

    def _other_may_write(self, host: str) -> bool:
        """Whether the attempt before this one may still be running."""
        import ray

        before = ray.get(self.progress.of.remote([self.task])).get(self.task)
        if before is None or before.ended or before.silent > SILENT_SECONDS:
            return False
        return bool(before.host != host or runs_here(before.process))

    def _report_on(self) -> None:
        while not self.over.wait(REPORT_SECONDS):
            self._ask()

    def _ask(self) -> None:
        import ray

        said = self.progress.report.remote(self.task, self.number, self.doing)
        try:
            counts = ray.get(said, timeout=ANSWER_SECONDS)
        except ray.exceptions.RayError:
            counts = False
        if not counts and not self.over.is_set():
            # Another attempt may have the runs by now: nothing more may be written.
            os._exit(1)
        self.answered = time.monotonic()
