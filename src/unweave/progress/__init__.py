"""Progress bars and messages: bars appear on terminals and in notebooks, messages everywhere."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from unweave.text import printable

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress, ProgressColumn

__all__ = ["bars", "lines", "live_display", "print_output", "say", "silenced", "track"]

Item = TypeVar("Item")


def say(line: str) -> None:
    """Print a message to standard error."""
    print(f"unweave: {printable(line)}", file=sys.stderr)  # noqa: T201 - the only such place


def print_output(text: object) -> None:
    """Print the output of a command to standard output.

    Control characters are escaped, because the text may contain names and messages from untrusted
    files.
    """
    print("\n".join(map(printable, str(text).split("\n"))), flush=True)  # noqa: T201 - as above


@contextmanager
def silenced() -> Iterator[None]:
    """Suppress the warnings of unweave, where they would only repeat earlier ones."""
    logger = logging.getLogger("unweave")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def track(items: Iterable[Item], job: str, total: int | None = None) -> Iterator[Item]:
    """Iterate over `items` with a progress bar and the remaining time.

    Args:
        items: Items to iterate over.
        job: Label of the bar, e.g. `"rendering dSprites"`.
        total: Number of items, if `items` has no length.
    """
    with _progress() as progress:
        yield from progress.track(items, total=total, description=job)


@contextmanager
def lines(jobs: Mapping[str, int], shown: bool = True) -> Iterator[Callable[[str, int], None]]:
    """Show one progress bar for each of several jobs.

    Args:
        jobs: Number of items of each job.
        shown: Whether to show the bars.

    Yields:
        Function that advances the bar of a job by a number of items.
    """
    with _progress(shown) as progress:
        tasks = {
            job: progress.add_task(job, total=total, start=False) for job, total in jobs.items()
        }

        def advance(job: str, count: int) -> None:
            progress.start_task(tasks[job])
            progress.advance(tasks[job], count)

        yield advance


def bars(*columns: "ProgressColumn", shown: bool = True) -> "Progress":
    """Return progress bars with these columns; they are disabled where nobody can see them."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if shown and console.is_jupyter:
        from unweave.progress.notebook import NotebookProgress

        return NotebookProgress(*columns)
    return Progress(*columns, console=console, disable=not (shown and console.is_terminal))


def live_display() -> "Live | None":
    """Return a display that is updated in place, or None without a terminal or a notebook."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if console.is_jupyter:
        from unweave.progress.notebook import NotebookLive

        return NotebookLive(auto_refresh=False)
    return Live(console=console, auto_refresh=False) if console.is_terminal else None


def _progress(shown: bool = True) -> "Progress":
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return bars(
        TextColumn("{task.description}", markup=False),  # may be a folder name
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        shown=shown,
    )
