"""Which models to score: fleets in memory, saved runs, folders of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from unweave.errors import UnweaveError
from unweave.models.files import CONFIG
from unweave.models.model import Fleet, Model, load

__all__ = ["Models", "Run", "runs_of"]

Models: TypeAlias = "Fleet | str | Path | Iterable[Models]"
"""A fleet, a model, the folder of a saved run or of several, or any number of these."""


@dataclass(frozen=True, eq=False)
class Run:
    """A model and, where it was saved, its folder."""

    model: Model
    folder: Path | None = None


def runs_of(models: Models) -> list[Run]:
    """Every model once, in the order given; folders of runs in the order of their names."""
    runs = list(_runs(models))
    if not runs:
        raise UnweaveError("there is nothing to evaluate: no model was given")
    seen: set[Path] = set()
    return [run for run in runs if run.folder is None or _is_new(run.folder.resolve(), seen)]


def _runs(models: Models) -> Iterable[Run]:
    if isinstance(models, Fleet):
        return [Run(model) for model in models]
    if isinstance(models, str | Path):
        return [Run(load(folder), folder) for folder in _folders(Path(models))]
    return [run for part in models for run in _runs(part)]


def _folders(path: Path) -> list[Path]:
    if (path / CONFIG).is_file():
        return [path]
    if not path.is_dir():
        raise UnweaveError(f"there is no folder {path}; give one that training wrote")
    # Names with a dot are runs that are being written.
    found = sorted(file.parent for file in path.glob(f"[!.]*/{CONFIG}"))
    if not found:
        raise UnweaveError(f"{path} holds no model and no folder of one; give one that does")
    return found


def _is_new(folder: Path, seen: set[Path]) -> bool:
    known = folder in seen
    seen.add(folder)
    return not known
