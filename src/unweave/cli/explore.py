"""The command `unweave explore`: what it reads, and the page it serves."""

from pathlib import Path
from typing import Any

from unweave.cli.loading import named_data
from unweave.show.explorer import explore

__all__ = ["explore_folder"]


def explore_folder(
    folder: Path, source: str | None, port: int | None, open_browser: bool, **options: Any
) -> None:
    """Serve the models of a folder until Ctrl-C."""
    explore(folder, named_data(source, options), port, open_browser)
