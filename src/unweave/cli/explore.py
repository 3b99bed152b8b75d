"""The command `unweave explore`: what it reads, and the page it serves."""

from pathlib import Path

from unweave.cli.commands.pictures import Explore
from unweave.cli.noted import noted_source
from unweave.data import load
from unweave.data.dataset import Dataset
from unweave.errors import UnweaveError
from unweave.explorer import explore
from unweave.explorer.model_index import entries_of
from unweave.io.paths import path_errors

__all__ = ["explore_folder"]


def explore_folder(asked: Explore) -> None:
    """Serve the models of a folder until Ctrl-C."""
    folder = asked.folder
    with path_errors(folder, "read"):
        if not folder.is_dir():
            raise UnweaveError(f"there is no folder {folder}; give one that training wrote")
    data = asked.images.named(asked.data) or _noted_images(folder)
    explore(folder, data, asked.port, asked.open_browser)


def _noted_images(folder: Path) -> Dataset | None:
    """The images that a note in the folder names, if they are those that its models learned from.

    The note may be a stranger's, and name any images on this machine.
    """
    noted = noted_source(folder)
    if noted is None:
        return None
    data = load(noted[0], **noted[1])
    configs = [entry.config for entry in entries_of(folder) if entry.config is not None]
    learned = [list(config.data[0]) for config in configs if config.data]
    return data if list(data.origin[0]) in learned else None
