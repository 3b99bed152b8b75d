"""Ctrl-C while training: the step is finished first, and what there is can be kept."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["interruptible"]


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """While this holds, Ctrl-C is noted and not thrown; a second one is thrown."""
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted.is_set
        return

    def note(number: int, frame: Any) -> None:  # noqa: ARG001 - as signal calls it
        if noted.is_set():
            raise KeyboardInterrupt
        noted.set()
        print("finishing this step …", file=sys.stderr)  # noqa: T201

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
