"""The command `unweave explore`: what it reads, and the page it serves."""

from pathlib import Path
from typing import Any

from unweave.cli.noted import noted_source
from unweave.data import load
from unweave.errors import DataError
from unweave.show.explorer import explore

__all__ = ["explore_folder"]


def explore_folder(
    folder: Path, source: str | None, port: int | None, open_browser: bool, **options: Any
) -> None:
    """Serve the models of a folder until Ctrl-C."""
    loading = {name: value for name, value in options.items() if value is not None}
    if loading and source is None:
        raise DataError(f"--{next(iter(loading))} says how to load --data, but that is not given")
    given = noted_source(folder) if source is None else (source, loading)
    explore(folder, None if given is None else load(given[0], **given[1]), port, open_browser)
