"""Lookup of models in memory, in folders, by pattern, or in the results of studies.

Listing does not read the files of runs; each file is read when needed. Folder layouts:

    RUN/                  files of a saved model
    FOLDER/RUN/ …         several saved models
    FOLDER/runs/RUN/ …    models of a study or fit
    FOLDER/best/          copy of the chosen model, next to `runs`

`zoo:NAME` stands for the folder of a model that comes with the package.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

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
    describe_error,
    diverged_at,
    read_config,
    read_curve,
    read_settings,
)
from unweave.models.model import Fleet, Model, load
from unweave.models.names import read_names
from unweave.models.zoo import zoo_folder

__all__ = ["HasRuns", "Models", "Run", "find_runs", "models_of", "one_model", "one_run", "runs_of"]


@runtime_checkable
class HasRuns(Protocol):
    """An object with the folders of its trained models, such as the results of a study."""

    @property
    def run_folders(self) -> list[Path]:
        """Folder of each trained model, inside `runs` of a common folder."""
        ...


Models: TypeAlias = "Fleet | str | Path | HasRuns | Iterable[Models]"
"""A fleet, a model, the folder of one or more saved models, of a fit or of a study, a pattern of
folders (`runs/a*`), the results of a study, or an iterable of these."""
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Run:
    """A trained model in memory or in a folder; unreadable files raise an `UnweaveError`.

    Args:
        folder: Folder of the saved model; None for a model in memory.
        held: The model, if it is in memory.
        home: The folder that was searched.
        best: Whether this is the copy of the chosen model in `best`.
        in_zoo: Whether the folder belongs to the package, so that nothing may be written to it.
    """

    folder: Path | None = None
    held: Model | None = None
    home: Path | None = None
    best: bool = False
    in_zoo: bool = False

    @property
    def cache_folder(self) -> Path | None:
        """Folder to save scores in; None for models in memory and in the zoo."""
        return None if self.in_zoo else self.folder

    @cached_property
    def model(self) -> Model:
        """The model, loaded once and cached."""
        return self.open()

    def open(self, device: str | torch.device = "cpu") -> Model:
        """Return the model; a saved model is loaded on every call."""
        if self.held is not None:
            return self.held
        assert self.folder is not None, "a run is in memory or in a folder"
        return load(self.folder, device)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Config as plain data, checked only to be a mapping."""
        return self._read(read_settings) if self.held is None else self.held.config.to_dict()

    @cached_property
    def config(self) -> Config:
        """Config of the run."""
        return self._read(read_config) if self.held is None else self.held.config

    @cached_property
    def diverged_at(self) -> int:
        """Step at which the model diverged, or -1; weights are not loaded."""
        return self._read(diverged_at) if self.held is None else int(self.held.diverged_at[0])

    @cached_property
    def curve(self) -> pd.DataFrame:
        """Losses during training."""
        return self._read(read_curve) if self.held is None else self.held.curve

    @property
    def names(self) -> dict[int, str]:
        """Recorded names of latents; see `unweave.models.names`."""
        if self.folder is None or self.in_zoo:
            return {}
        return read_names(self.folder, self.config)

    @cached_property
    def damage(self) -> str:
        """Error message if the files cannot be read, else an empty string.

        Lets callers skip damaged runs. Weights are not loaded, so loading them may still fail.
        """
        if self.folder is None:
            return ""
        try:
            _ = self.config, self.diverged_at, self._read(lambda folder: (folder / CURVE).stat())
        except UnweaveError as error:
            return str(error)
        return ""

    def _read(self, reader: Callable[[Path], Found]) -> Found:
        """Apply a reader to the folder and turn its errors into an `UnweaveError`."""
        assert self.folder is not None, "a run is in memory or in a folder"
        try:
            return reader(self.folder)
        except UNREADABLE as error:
            raise UnweaveError(describe_error(self.folder, error), subject=self.folder) from error


def find_runs(models: Models) -> list[Run]:
    """Return each run once, in the given order; within a folder `best` first, then by name."""
    found = list(_found(models))
    if not found:
        raise UnweaveError("no models were given; pass a fleet or the folder of a saved model")
    once: dict[Run | Path, Run] = {}
    for run in found:
        once.setdefault(run if run.folder is None else run.folder.resolve(), run)
    return list(once.values())


def runs_of(models: Models) -> list[Run]:
    """Return each run once; `best` only if the folder has no other runs."""
    found = find_runs(models)
    homes = {run.home for run in found if not run.best}
    return [run for run in found if not run.best or run.home not in homes]


def models_of(models: Models, *, chosen: bool = False) -> list[Model]:
    """Load the models of `runs_of`.

    Args:
        models: Models to load.
        chosen: Whether to load only `best` from folders that have it.
    """
    runs = runs_of(models)
    if chosen:
        found = find_runs(models)
        homes = {run.home for run in found if run.best}
        runs = [run for run in found if run.best or run.home not in homes]
    return [run.model for run in runs]


def one_model(folder: str | Path) -> Model:
    """Load the model in a folder, the one in its `best`, or the only one inside it."""
    return one_run(folder).model


def one_run(folder: str | Path) -> Run:
    """Return the run of `one_model`."""
    found = find_runs(folder)
    runs = [run for run in found if run.best] or found
    if len(runs) > 1:
        raise UnweaveError(
            f"{folder} contains {len(runs)} models, but no chosen one in best/; pass one of them, "
            f"such as {runs[0].folder}",
            subject=folder,
        )
    return runs[0]


def _found(models: Models) -> Iterable[Run]:
    if isinstance(models, Fleet):
        return [Run(held=model) for model in models]
    if isinstance(models, str | Path):
        if folder := zoo_folder(models):
            return [Run(folder, home=folder, in_zoo=True)]
        return [run for folder in _folders(models) for run in _in_folder(folder)]
    if isinstance(models, HasRuns):
        return [Run(folder, home=folder.parent.parent) for folder in models.run_folders]
    return [run for part in models for run in _found(part)]


def _folders(path: str | Path) -> list[Path]:
    """Return the folder at a path, or the folders that match a pattern."""
    if "://" in str(path):
        raise UnweaveError(f"cannot read models from {path}; copy them into a local folder first")
    with path_errors(Path(path), "read"):
        folder = Path(path).expanduser()
        if folder.is_dir():
            return [folder]
        root = Path(folder.anchor)
        pattern = str(folder.relative_to(root))
        matching = root.glob(pattern) if set(pattern) & set("*?[") else ()
        found = sorted(match for match in matching if match.is_dir())
    if not found:
        raise UnweaveError(f"folder {path} does not exist; pass the folder of a trained model")
    return found


def _in_folder(folder: Path) -> list[Run]:
    with path_errors(folder, "read"):
        if _is_run(folder):
            return [Run(folder, home=folder)]
        refuse_inner_links(folder, (RUNS, BEST))
        best = [Run(folder / BEST, home=folder, best=True)] if _is_run(folder / BEST) else []
        for place in (folder / RUNS, folder):
            # Names that start with a dot belong to runs that are being written.
            inside = sorted(path for path in place.glob("[!.]*") if path != folder / BEST)
            runs = [Run(path, home=folder) for path in inside if _is_run(path)]
            if runs:
                return best + runs
    if not best:
        raise UnweaveError(f"{folder} contains no models; pass the folder of a trained model")
    return best


def _is_run(folder: Path) -> bool:
    """Return whether a folder contains files of a model, even if some are missing."""
    return (folder / CONFIG).is_file() or (folder / WEIGHTS).is_file()
