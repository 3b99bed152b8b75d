"""Progress on the terminal: one line per job, on standard error, silent where nobody watches."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["progress_bar", "track"]

Item = TypeVar("Item")


@contextmanager
def progress_bar(job: str, total: float, unit: str = ""):  # type: ignore[no-untyped-def]
    yield


def track(items: Sequence[Item], job: str) -> Iterator[Item]:
    """Iterate over `items` under a progress bar with the time left."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield from progress.track(items, description=job)
