"""Lineages: runs that differ only in their number of steps, so that one can continue another."""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from unweave.errors import UnweaveError
from unweave.models.config import LIMITS, RUN_NAME, Config
from unweave.models.files import CONFIG, OPTIMISER, UNREADABLE, read_settings

__all__ = ["lineage", "lineage_of", "saved_runs", "states"]


def lineage(config: Config) -> str:
    """Return the lineage of a run, a name shared by all runs that can continue each other.

    A cosine schedule depends on the total number of steps, so its runs continue no others.

    Example:
        >>> from unweave.methods import VAE
        >>> short, long = (Config(method=VAE(), steps=steps) for steps in (10, 20))
        >>> short.hash == long.hash, lineage(short) == lineage(long)
        (False, True)
    """
    return lineage_of(config.to_dict())


def lineage_of(plain: Mapping[str, Any]) -> str:
    """Return the lineage of a config as plain data; see `lineage`."""
    optimiser = plain.get("optimiser")
    if not isinstance(optimiser, Mapping) or optimiser.get("schedule") != "cosine":
        plain = {**plain, "steps": None}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def saved_runs(folder: Path, names: str = CONFIG) -> dict[str, dict[int, Path]]:
    """Return the folders of the saved runs inside a folder, by lineage and number of steps.

    Args:
        folder: Folder of runs.
        names: File that a run must have (default: its config).
    """
    found: dict[str, dict[int, Path]] = {}
    for path in sorted(folder.glob(f"*/{names}")):
        if RUN_NAME.fullmatch(path.parent.name):
            name, steps = _examined(path.parent, (path.parent / CONFIG).stat().st_mtime_ns)
            if steps >= 0:
                found.setdefault(name, {})[steps] = path.parent
    return found


def states(folder: Path) -> dict[str, dict[int, Path]]:
    """Return the saved runs that have their optimiser state, by lineage and number of steps."""
    return saved_runs(folder, OPTIMISER)


@lru_cache(maxsize=100_000)
def _examined(folder: Path, stamp: int) -> tuple[str, int]:  # noqa: ARG001 - part of the key
    """Return lineage and steps of a saved run; -1 steps if it cannot be read."""
    try:
        plain = read_settings(folder)
        steps = plain.get("steps")
    except (*UNREADABLE, UnweaveError):
        return "", -1
    if type(steps) is not int or not 0 <= steps <= LIMITS["steps"][1]:
        return "", -1
    return lineage_of(plain), steps
