"""Progress on the terminal: one line per job, on standard error, silent where nobody watches."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from unweave.text import readable

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["lines", "say", "tell", "track"]

Item = TypeVar("Item")


def say(line: str) -> None:
    """A line for people, on standard error, beside the bars."""
    print(f"unweave: {readable(line)}", file=sys.stderr)  # noqa: T201 - the one place that does


def tell(text: object) -> None:
    """Lines of a command's answer, on standard output.

    They may have names and messages from files of strangers in them, with which a terminal could
    be made to show or do other things.
    """
    print("\n".join(map(readable, str(text).split("\n"))), flush=True)  # noqa: T201 - as above


def track(items: Iterable[Item], job: str, total: int | None = None) -> Iterator[Item]:
    """Iterate over `items` under a bar that shows what is done and how long the rest takes.

    Args:
        items: What to go through.
        job: What is being done, e.g. `"rendering dSprites"`.
        total: How many items there are, where `items` cannot say.
    """
    with _progress() as progress:
        yield from progress.track(items, total=total, description=job)


@contextmanager
def lines(jobs: Mapping[str, int], shown: bool = True) -> Iterator[Callable[[str, int], None]]:
    """A line for each of several jobs that advance in turn.

    Args:
        jobs: How many items each has.
        shown: Whether to show anything.

    Yields:
        A function that says of a job how many more items are done.
    """
    with _progress(shown) as progress:
        tasks = {
            job: progress.add_task(job, total=total, start=False) for job, total in jobs.items()
        }

        def advance(job: str, count: int) -> None:
            progress.start_task(tasks[job])
            progress.advance(tasks[job], count)

        yield advance


def _progress(shown: bool = True) -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),  # which may be the name of a folder
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, disable=not (shown and console.is_terminal))
