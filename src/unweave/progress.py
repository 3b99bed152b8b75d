"""Progress on the terminal: one line per job, on standard error, silent where nobody watches."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["track"]

Item = TypeVar("Item")


def track(items: Iterable[Item], job: str, total: int | None = None) -> Iterator[Item]:
    """Iterate over `items` under a bar that shows what is done and how long the rest takes.

    Args:
        items: What to go through.
        job: What is being done, e.g. `"rendering dSprites"`.
        total: How many items there are, where `items` cannot say.
    """
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
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield from progress.track(items, total=total, description=job)
