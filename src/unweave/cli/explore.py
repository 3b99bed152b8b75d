"""The command `unweave explore`: what it reads, and the page it serves."""

from pathlib import Path
from typing import Any

from unweave.cli.loading import named_data
from unweave.cli.noted import noted_source
from unweave.data import load
from unweave.show.explorer import explore

__all__ = ["explore_folder"]


def explore_folder(
    folder: Path, source: str | None, port: int | None, open_browser: bool, **options: Any
) -> None:
    """Serve the models of a folder until Ctrl-C."""
    data = named_data(source, options)
    noted = noted_source(folder) if data is None else None
    if noted is not None:
        data = load(noted[0], **noted[1])
    explore(folder, data, port, open_browser)
