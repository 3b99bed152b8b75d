"""CPU threads, used so that results do not depend on their number.

Libraries that split a matrix product between threads round differently for each number of threads.
Here each task runs on one thread, and the split into tasks does not depend on the number of
threads.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

__all__ = ["run_all", "single_threaded"]

Result = TypeVar("Result")


def run_all(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run tasks, one thread each, on as many threads as PyTorch may use.

    A task may call this function again; idle threads then take part.

    Args:
        tasks: Functions without arguments, independent of each other.

    Returns:
        Results of the tasks, in order.

    Example:
        >>> run_all([lambda: 1, lambda: 2])
        [1, 2]
    """
    with single_threaded():
        helpers: _Helpers | None = getattr(_this_thread, "helpers", None)
        return [task() for task in tasks] if helpers is None else helpers.run(tasks)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Run PyTorch's operations on the calling thread within a context, or a decorated function.

    `run_all` still uses all threads. PyTorch's own threads wait for work in a busy loop after each
    operation. If another process needs the cores, both processes slow down severely.
    """
    threads = torch.get_num_threads()
    if threads == 1:  # also within a task
        yield
        return
    _this_thread.helpers = _helpers(threads - 1, os.getpid())
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _this_thread.helpers = None


_this_thread = threading.local()
"""Thread-local state; `helpers` is set while the thread runs a task."""


class _Helpers:
    """Threads that run tasks in addition to the calling thread."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._unfinished = 0
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(count, "unweave", self._start)
        # New threads inherit the number of threads that any thread has set last in PyTorch, so
        # all helpers must have set theirs before the caller restores its own.
        started = threading.Barrier(count + 1)
        for _ in range(count):
            self._pool.submit(started.wait)
        started.wait()

    def _start(self) -> None:
        torch.set_num_threads(1)
        _this_thread.helpers = self

    def run(self, tasks: Sequence[Callable[[], Result]]) -> list[Result]:
        """Run tasks; on this thread alone if all helpers are busy."""
        if len(tasks) < 2 or self._unfinished >= self._count:
            return [task() for task in tasks]
        differentiable = torch.is_grad_enabled()
        futures = [self._submit(task, differentiable) for task in tasks]
        own: dict[int, Result] = {}
        try:
            # Helpers start with the first task, this thread with the last.
            for place in reversed(range(len(tasks))):
                if futures[place].cancel():
                    own[place] = tasks[place]()
        finally:
            for future in futures:
                future.cancel()
            wait(futures)
        return [
            own[place] if place in own else future.result() for place, future in enumerate(futures)
        ]

    def _submit(self, task: Callable[[], Result], differentiable: bool) -> Future[Result]:
        def run() -> Result:
            with torch.set_grad_enabled(differentiable):
                return task()

        with self._lock:
            self._unfinished += 1
        future = self._pool.submit(run)
        future.add_done_callback(self._finish)
        return future

    def _finish(self, _: Future[Result]) -> None:
        with self._lock:
            self._unfinished -= 1


@cache
def _helpers(count: int, process: int) -> _Helpers:  # noqa: ARG001 (threads do not survive a fork)
    """Return the helpers of this process, created once."""
    return _Helpers(count)
