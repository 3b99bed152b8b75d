"""The checkpoints in a folder: what they are called, which there are, which are done with."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from unweave.errors import UnweaveError
from unweave.fleet import checkpoint
from unweave.fleet.config import Config

__all__ = ["CHECKPOINT", "checkpoints", "damaged_checkpoints", "path_of", "tidy"]

CHECKPOINT = ".fleet-"
"""What their names begin with."""


def path_of(configs: Sequence[Config], folder: Path) -> Path:
    """Where the checkpoint of a fleet of these runs is."""
    names = hashlib.sha256(" ".join(config.hash for config in configs).encode()).hexdigest()[:16]
    return folder / f"{CHECKPOINT}{names}.safetensors"


def checkpoints(folder: Path) -> dict[Path, list[str]]:
    """All checkpoints and the runs in each, those that are furthest behind last."""
    found = {}
    for path in folder.glob(f"{CHECKPOINT}*.safetensors"):
        # Another process may remove one that is done with at any moment.
        with suppress(FileNotFoundError):
            found[path] = (-path.stat().st_mtime, checkpoint.runs_of(path))
    return {path: found[path][1] for path in sorted(found, key=lambda path: found[path][0])}


def damaged_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints that cannot be read."""
    damaged = []
    for path in folder.glob(f"{CHECKPOINT}*.safetensors"):
        try:
            checkpoint.runs_of(path)
        except FileNotFoundError:
            continue
        except UnweaveError:
            damaged.append(path)
    return damaged


def tidy(folder: Path) -> None:
    """Remove checkpoints all of whose runs are saved."""
    for path, runs in checkpoints(folder).items():
        if all((folder / run).exists() for run in runs):
            path.unlink(missing_ok=True)
