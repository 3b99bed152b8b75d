"""The checkpoints in a folder: what they are called, which there are, which are done with."""

import hashlib
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from unweave.fleet import checkpoint
from unweave.io.generations import DAMAGED, DamagedCheckpointError, previous_of
from unweave.models.config import Config

__all__ = [
    "CHECKPOINT",
    "checkpoints",
    "damaged_checkpoints",
    "newest_first",
    "path_of",
    "strange_checkpoints",
    "tidy",
]

CHECKPOINT = ".fleet-"
"""What their names begin with."""


def path_of(configs: Sequence[Config], folder: Path) -> Path:
    """Where the newest checkpoint of a fleet of these runs is."""
    names = hashlib.sha256(" ".join(config.hash for config in configs).encode()).hexdigest()[:16]
    return folder / f"{CHECKPOINT}{names}.safetensors"


def checkpoints(folder: Path) -> dict[Path, list[str]]:
    """The last readable checkpoint of every fleet and the runs in it, the newest first."""
    found = _readable(folder)
    older = {previous_of(path) for path in found}
    return {path: runs for path, runs in found.items() if path not in older}


def newest_first(folder: Path) -> list[Path]:
    """All checkpoints, also those before the last, and also those that cannot be read."""
    times = {}
    for path in folder.glob(f"{CHECKPOINT}*.safetensors"):
        # Another process may remove one that is done with at any moment.
        with suppress(FileNotFoundError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                times[path] = status.st_mtime_ns
    older = {previous_of(path) for path in times}
    return sorted(times, key=lambda path: (-times[path], path in older))


def strange_checkpoints(folder: Path) -> list[Path]:
    """Folders, pipes and the like with names of checkpoints, which could not be replaced."""
    found = []
    for path in folder.glob(f"{CHECKPOINT}*"):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.stat().st_mode):
                found.append(path)
    return found


def damaged_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints that cannot be read."""
    damaged = strange_checkpoints(folder)
    for path in newest_first(folder):
        try:
            checkpoint.runs_of(path)
        except FileNotFoundError:
            continue
        except DamagedCheckpointError:
            damaged.append(path)
    return damaged


def tidy(folder: Path) -> None:
    """Remove checkpoints all of whose runs are saved; after the last, damaged ones too."""
    for path, runs in _readable(folder).items():
        if all((folder / run).exists() for run in runs):
            path.unlink(missing_ok=True)
    if not newest_first(folder):
        for path in folder.glob(f"{CHECKPOINT}*{DAMAGED}"):
            path.unlink(missing_ok=True)


def _readable(folder: Path) -> dict[Path, list[str]]:
    found = {}
    for path in newest_first(folder):
        with suppress(FileNotFoundError, DamagedCheckpointError):
            found[path] = checkpoint.runs_of(path)
    return found
