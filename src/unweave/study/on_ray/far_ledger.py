"""The ledger of a study from afar: workers ask, and the process that runs the study answers.

A file that several machines share cannot be locked with certainty. So one process alone opens the
ledger, and workers on Ray ask it through a `Mailbox`, an actor that knows nothing of files. It
answers many at once: what came while it was busy is handled in one go.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from unweave.errors import UnweaveError
from unweave.study.ledger import Ledger
from unweave.study.workers import Worker

__all__ = ["CALLS", "Answer", "FarLedger", "Mailbox", "Request", "answer"]

CALLS = frozenset(
    {
        "beat",
        "busy",
        "claim",
        "claim_trained",
        "configs",
        "counts",
        "mark",
        "note_speed",
        "open_runs",
        "release",
        "reopen",
        "speeds",
        "states",
        "workers",
    }
)
"""What workers ask of a ledger; nothing else is answered."""
NOTHING_NEW: Mapping[str, Any] = {"busy": True, "claim_trained": [], "open_runs": {}}
"""Answers that say only that there is nothing for a worker to do yet."""
PAUSE_SECONDS = 3.0
"""How long a worker believes that, so that a thousand who wait do not drown those who work."""
ANSWER_SECONDS = 300.0
"""How long a worker waits for an answer."""


class Request(NamedTuple):
    """A call of the ledger that a worker wants made."""

    number: int
    worker: str
    call: str
    arguments: Sequence[Any]


class Answer(NamedTuple):
    """What the ledger said.

    Args:
        value: What the call returned.
        error: Or why it could not.
        stop: Whether the worker should stop, with a checkpoint.
        dismissed: Whether its runs have been given to others.
    """

    value: Any = None
    error: str | None = None
    stop: bool = False
    dismissed: bool = False


def answer(ledger: Ledger, request: Request, stop: bool = False) -> Answer:
    """Make a call that a worker asked for."""
    if request.call not in CALLS:
        return Answer(error=f"workers cannot call {request.call!r} of a ledger", stop=stop)
    try:
        return Answer(getattr(ledger, request.call)(*request.arguments), stop=stop)
    except UnweaveError as error:
        return Answer(error=str(error), stop=stop)


class Mailbox:
    """Where workers leave requests and wait for answers; an actor of Ray."""

    def __init__(self) -> None:
        self.numbers = count()
        self.requests: list[Request] = []
        self.waiting: dict[int, asyncio.Future[Answer]] = {}
        self.asked = asyncio.Event()

    async def ask(self, worker: str, call: str, arguments: Sequence[Any]) -> Answer:
        """Leave a request; the answer to it."""
        number = next(self.numbers)
        self.waiting[number] = asyncio.get_running_loop().create_future()
        self.requests.append(Request(number, worker, call, arguments))
        self.asked.set()
        return await self.waiting[number]

    async def exchange(self, answers: Mapping[int, Answer], patience: float) -> list[Request]:
        """Hand out answers and take what was asked since, after some seconds even if nothing."""
        for number, said in answers.items():
            self.waiting.pop(number).set_result(said)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.asked.wait(), patience)
        self.asked.clear()
        requests, self.requests = self.requests, []
        return requests


class FarLedger:
    """A ledger with those calls of `Ledger` that workers need, each asked of a mailbox.

    Args:
        mailbox: The actor.
        worker: Who asks.
        place: Where that is, for people.
    """

    def __init__(self, mailbox: Any, worker: str, place: str) -> None:
        self.mailbox, self.worker, self.place = mailbox, worker, place
        self.stopping = False
        self.pauses: dict[str, float] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in CALLS:
            raise AttributeError(f"a ledger has no {name!r}")
        return partial(self._ask, name)

    def beat(self, worker: Worker, doing: str = "") -> None:
        """Say that the worker lives, where, and what it is doing."""
        self._ask("beat", worker, f"{self.place}: {doing or 'starting'}")

    def _ask(self, call: str, *arguments: Any) -> Any:
        if time.monotonic() < self.pauses.get(call, 0.0):
            return copy(NOTHING_NEW[call])
        said = self._asked(call, arguments)
        self.stopping = said.stop
        if said.error is not None:
            raise UnweaveError(said.error)
        if call == "mark":
            # What this worker has done may be what it waits for.
            self.pauses.clear()
        elif call in NOTHING_NEW and said.value == NOTHING_NEW[call]:
            self.pauses[call] = time.monotonic() + PAUSE_SECONDS
        return said.value

    def _asked(self, call: str, arguments: Sequence[Any]) -> Answer:
        import ray

        try:
            said: Answer = ray.get(
                self.mailbox.ask.remote(self.worker, call, arguments), timeout=ANSWER_SECONDS
            )
        except ray.exceptions.RayError as error:
            raise UnweaveError("the process that runs the study is gone") from error
        if said.dismissed:
            # Others have the runs by now, so nothing more may be written: not even a checkpoint.
            os._exit(1)
        return said
