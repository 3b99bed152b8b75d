"""What a person sees of a study that many workers are at: how far it is, and what each does."""

import time
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from unweave.progress import say
from unweave.study.ledger import Ledger
from unweave.text import counted, readable

__all__ = ["StudyWatch"]

LINE_SECONDS, LIVE_SECONDS = 30.0, 1.0
SHOWN = 20
DONE = ("trained", "scored", "diverged", "failed")


class StudyWatch:
    """A display that lives on a terminal, or, where there is none, a line every half minute.

    Args:
        ledger: The study's.
        shown: False is silent.
    """

    def __init__(self, ledger: Ledger, shown: bool) -> None:
        self.ledger, self.shown = ledger, shown
        self.live: Live | None = None
        self.due = time.monotonic()

    def __enter__(self) -> Self:
        console = Console(stderr=True)
        if self.shown and console.is_terminal:
            self.live = Live(console=console, auto_refresh=False)
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self) -> None:
        """Say how far the study is, if it is time to."""
        if not self.shown or time.monotonic() < self.due:
            return
        if self.live is None:
            say(summary(self.ledger))
            self.due = time.monotonic() + LINE_SECONDS
        else:
            said = [summary(self.ledger), *details(self.ledger)]
            self.live.update(Text("\n".join(said)), refresh=True)
            self.due = time.monotonic() + LIVE_SECONDS


def summary(ledger: Ledger) -> str:
    """How far a study is, on one line; workers that do nothing yet may be waiting for room."""
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
    """What each worker does, a line each."""
    doing = sorted(said for *_, said in ledger.workers() if said)
    more = [f"  and {len(doing) - SHOWN} more"] if len(doing) > SHOWN else []
    return [f"  {readable(said)}" for said in doing[:SHOWN]] + more
