"""Which models are here: in memory, in folders, matching patterns, of studies, or all of these.

Listing reads no files of runs; each file is read when it is asked for. The known folders:

    RUN/                  the files of a saved model
    FOLDER/RUN/ …         several of them
    FOLDER/runs/RUN/ …    the same, of a study or a fit
    FOLDER/best/          beside them, a copy of the run that was chosen
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pandas as pd
import torch

from unweave.errors import UnweaveError
from unweave.io.paths import path_errors, refuse_inner_links
from unweave.models.config import Config
from unweave.models.files import (
    BEST,
    CONFIG,
    CURVE,
    RUNS,
    UNREADABLE,
    WEIGHTS,
    diverged_at,
    read_config,
    read_curve,
    read_settings,
    trouble_with,
)
from unweave.models.model import Fleet, Model, load

__all__ = ["HasRuns", "Models", "Run", "find_runs", "models_of", "one_model", "runs_of"]


@runtime_checkable
class HasRuns(Protocol):
    """What knows the folders of its trained models, such as the results of a study."""

    @property
    def run_folders(self) -> list[Path]:
        """The folder of each trained model, in `runs` of a common folder."""
        ...


Models: TypeAlias = "Fleet | str | Path | HasRuns | Iterable[Models]"
"""A fleet, a model, the folder of a saved run, of several, of a fit or a study, a pattern of such
folders (`runs/a*`), the results of a study, or any number of these."""


@dataclass(frozen=True, eq=False)
class Run:
    """A trained model, in memory or in a folder; what cannot be read is an `UnweaveError`.

    Args:
        folder: Where it is saved; None for a model in memory.
        held: The model, where it is in memory.
        home: The folder that was given, in which this one was found.
        best: Whether it is the copy of the chosen run in `best`.
    """

    folder: Path | None = None
    held: Model | None = None
    home: Path | None = None
    best: bool = False

    @cached_property
    def model(self) -> Model:
        """The model, loaded once and kept."""
        return self.open()

    def open(self, device: str | torch.device = "cpu") -> Model:
        """The model, loaded anew where it is in a folder."""
        if self.held is not None:
            return self.held
        return load(self._saved, device)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What it was trained with, as plain data, which is only checked to be a mapping."""
        if self.held is not None:
            return self.held.config.to_dict()
        with _reading(self._saved):
            return read_settings(self._saved)

    @cached_property
    def config(self) -> Config:
        """What it was trained with."""
        if self.held is not None:
            return self.held.config
        with _reading(self._saved):
            return read_config(self._saved)

    @cached_property
    def diverged_at(self) -> int:
        """The step at which it stopped being finite, or -1; weights are not loaded for that."""
        if self.held is not None:
            return int(self.held.diverged_at[0])
        with _reading(self._saved):
            return diverged_at(self._saved)

    @cached_property
    def curve(self) -> pd.DataFrame:
        """The losses while training."""
        if self.held is not None:
            return self.held.curve
        with _reading(self._saved):
            return read_curve(self._saved)

    @cached_property
    def damage(self) -> str:
        """Why its files cannot be read, or nothing; for those who go on with other runs.

        Weights are not loaded for that, so that loading them may still fail.
        """
        if self.folder is None:
            return ""
        try:
            _ = self.config, self.diverged_at
            with _reading(self.folder):
                (self.folder / CURVE).stat()
        except UnweaveError as error:
            return str(error)
        return ""

    @property
    def _saved(self) -> Path:
        if self.folder is None:
            raise UnweaveError("this model has no folder and is not in memory")
        return self.folder


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """What goes wrong while files of a run are read, as a sentence."""
    try:
        yield
    except UNREADABLE as error:
        raise UnweaveError(trouble_with(folder, error)) from error


def find_runs(models: Models) -> list[Run]:
    """Every run once, in the order given; those of a folder by name, the copy in `best` first."""
    found = list(_found(models))
    if not found:
        raise UnweaveError("no model was given; give a fleet, or the folder of a saved model")
    seen: set[Path] = set()
    return [run for run in found if run.folder is None or _is_new(run.folder.resolve(), seen)]


def runs_of(models: Models) -> list[Run]:
    """Every run once; `best` only where the run that it is a copy of is not there."""
    found = find_runs(models)
    homes = {run.home for run in found if not run.best}
    return [run for run in found if not run.best or run.home not in homes]


def models_of(models: Models, *, chosen: bool = False) -> list[Model]:
    """The models of `runs_of`, loaded.

    Args:
        models: Where they are.
        chosen: Whether of a folder with a `best` only this is meant.
    """
    runs = runs_of(models)
    if chosen:
        found = find_runs(models)
        homes = {run.home for run in found if run.best}
        runs = [run for run in found if run.best or run.home not in homes]
    return [run.model for run in runs]


def one_model(folder: str | Path) -> Model:
    """The model in a folder, in `best` inside it, or the only one in it."""
    found = find_runs(folder)
    runs = [run for run in found if run.best] or found
    if len(runs) > 1:
        raise UnweaveError(
            f"{folder} holds {len(runs)} models and does not say which is best; give one of them, "
            f"such as {runs[0].folder}"
        )
    return runs[0].model


def _found(models: Models) -> Iterable[Run]:
    if isinstance(models, Fleet):
        return [Run(held=model) for model in models]
    if isinstance(models, str | Path):
        return [run for folder in _folders(models) for run in _in_folder(folder)]
    if isinstance(models, HasRuns):
        return [Run(folder, home=folder.parent.parent) for folder in models.run_folders]
    return [run for part in models for run in _found(part)]


def _folders(path: str | Path) -> list[Path]:
    """The folder of a path, or those that match a pattern."""
    if "://" in str(path):
        raise UnweaveError(f"models are read from folders; copy {path} into one first")
    with path_errors(Path(path), "read"):
        folder = Path(path).expanduser()
        if folder.is_dir():
            return [folder]
        root = Path(folder.anchor)
        pattern = str(folder.relative_to(root))
        matching = root.glob(pattern) if set(pattern) & set("*?[") else ()
        found = sorted(match for match in matching if match.is_dir())
    if not found:
        raise UnweaveError(f"there is no folder {path}; give one that training wrote")
    return found


def _in_folder(folder: Path) -> list[Run]:
    with path_errors(folder, "read"):
        if _is_run(folder):
            return [Run(folder, home=folder)]
        refuse_inner_links(folder, (RUNS, BEST))
        best = [Run(folder / BEST, home=folder, best=True)] if _is_run(folder / BEST) else []
        for place in (folder / RUNS, folder):
            # Names with a dot are runs that are being written.
            inside = sorted(path for path in place.glob("[!.]*") if path != folder / BEST)
            runs = [Run(path, home=folder) for path in inside if _is_run(path)]
            if runs:
                return best + runs
    if not best:
        raise UnweaveError(f"{folder} holds no model and no folder of one; give one that does")
    return best


def _is_run(folder: Path) -> bool:
    """Whether a folder holds the files of a model, even if one of them is lost."""
    return (folder / CONFIG).is_file() or (folder / WEIGHTS).is_file()


def _is_new(folder: Path, seen: set[Path]) -> bool:
    known = folder in seen
    seen.add(folder)
    return not known
