"""Running a study on Ray: connect, let a crew work until nothing is left, write the results."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from unweave.errors import UnweaveError
from unweave.fleet.loop import interruptible
from unweave.io.extensions import module_file, module_of, references_in
from unweave.study.on_ray.cluster import connected
from unweave.study.on_ray.crew import Crew
from unweave.study.on_ray.hand import Job
from unweave.study.remote import RemoteStore
from unweave.study.repair import tidy
from unweave.study.results import Results
from unweave.study.status import StudyWatch
from unweave.study.store import Store
from unweave.study.tokens import new_token

__all__ = ["run_on_ray"]


def run_on_ray(store: Store, on: str, progress: bool, options: dict[str, Any]) -> None:
    """Work on a study with all of a Ray cluster until nothing is left.

    Args:
        store: The study, prepared.
        on: `"ray"`, one of its own; `"auto"`, `"host:port"` or `"ray://host:port"`, one that runs.
        progress: Whether to show how far it is.
        options: Of `Work`: device, fleet_size, scorers, checkpoint_every.
    """
    plugins = _plugins(store)
    with (
        connected(on, plugins),
        _token(store) as token,
        StudyWatch(store.ledger, progress) as watch,
    ):
        folder = store.url if isinstance(store, RemoteStore) else str(store.folder.absolute())
        options = {**options, "device": _kind(options["device"])}
        places = {module: str(path.parent) for module, path in plugins.items()}
        crew = Crew(store, Job(folder, token, options, places))
        try:
            with interruptible() as stopped:
                while crew.at_work(stopped()):
                    watch.show(crew.waiting)
        finally:
            crew.disband()
            if not store.ledger.workers():
                tidy(store)
            Results(store).write()
            store.hand_in_ledger()


def _plugins(store: Store) -> dict[str, Path]:
    """The modules of users' methods, metrics, architectures and data sets, and their files."""
    plugins: dict[str, Path] = {}
    for reference in references_in(store.study.to_dict()):
        file = module_file(module_of(reference))
        if module_of(reference) == "__main__" or file is None:
            raise UnweaveError(
                f"{reference} is not in a module of its own, so workers on Ray cannot import it; "
                "move it into one"
            )
        plugins[module_of(reference)] = file
    return plugins


def _kind(device: str | torch.device | None) -> str | None:
    return None if device is None else torch.device(device).type


@contextmanager
def _token(store: Store) -> Iterator[str]:
    """A file in the study's folder by which workers see that it is the same folder."""
    token = new_token()
    store.leave(token)
    try:
        yield token
    finally:
        store.take_back(token)
