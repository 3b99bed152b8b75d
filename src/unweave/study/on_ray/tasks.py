"""Ray tasks that train and score runs on the nodes of a cluster.

Tasks access the study by its folder or URL and never open its ledger; they return the outcomes of
their runs.
"""

import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet.callbacks import Callback, Callbacks
from unweave.fleet.train import in_fleets
from unweave.io.extensions import allow
from unweave.io.writing import temporary_folder
from unweave.models.config import Config
from unweave.study.ledger import RunOutcome, one_line
from unweave.study.on_ray.progress import Attempt
from unweave.study.planning import device_name
from unweave.study.remote import RemoteStore, is_url
from unweave.study.scoring import Scorer
from unweave.study.store import STUDY, Store
from unweave.study.training import DiskFullError, RunOptions, is_out_of_memory, train_fleet

__all__ = ["Job", "Report", "score_runs", "train_runs"]

WAIT_SECONDS = 0.5


class Job(NamedTuple):
    """Arguments that all tasks share."""

    folder: str  # folder or URL of the study
    token: str  # name of a file there, by which a task recognises the driver's folder
    progress: Any  # handle of the actor `Progress`
    options: RunOptions  # options of the run, without callbacks
    plugins: Sequence[str]  # modules of the study's custom methods, metrics and data sets
    forwards: bool = False  # whether the driver has callbacks


class Report(NamedTuple):
    """Result of a task, to be recorded in the ledger."""

    outcomes: Mapping[str, RunOutcome] = {}  # outcomes of the finished runs
    error: str | None = None  # reason why the other runs failed; if None, they are open again
    # Name of the device and seconds per step of one model on it, if measured.
    speed: tuple[str, float] | None = None
    too_many: bool = False  # whether the models did not fit into the memory of the device
    unusable: str | None = None  # reason why no task can run on this node


class UnusableNodeError(UnweaveError):
    """A node that cannot access the study's folder."""


def train_runs(job: Job, task: str, configs: Sequence[Config], gpus: int, threads: int) -> Report:
    """Train runs of one kind on a GPU or on CPU cores, in as many fleets as necessary."""
    torch.set_num_threads(threads)
    with Attempt(job.progress, task, f"preparing {len(configs)} models") as attempt:
        try:
            with _study(job) as store:
                return _trained(job, attempt, store, configs, _device(gpus))
        except InterruptedTrainingError:
            return Report()
        except (DiskFullError, UnusableNodeError) as error:
            return Report(unusable=str(error))


def _trained(
    job: Job, attempt: Attempt, store: Store, configs: Sequence[Config], device: torch.device
) -> Report:
    report = Report()
    calls = Callbacks(Forwarding(attempt) if job.forwards else None)
    options = replace(job.options, callbacks=calls)

    def on_progress(doing: str) -> None:
        attempt.report(doing)
        try:
            store.upload_checkpoints()
        except Exception as error:  # must not interrupt training
            attempt.doing = f"{doing}; {one_line(error)}"

    try:
        left = [config for config in configs if not store.has(config.hash)]
        data = store.data_of(configs[0])
        for fleet in in_fleets(left, data, store.interrupted(), device, job.options.fleet_size):
            seconds = train_fleet(store, fleet, device, options, on_progress)
            if seconds is not None:
                report = report._replace(speed=(device_name(device), seconds))
    except (InterruptedTrainingError, DiskFullError):
        raise
    except Exception as error:  # recorded for its runs; the study continues
        report = report._replace(error=one_line(error), too_many=is_out_of_memory(error))
    saved = [config for config in configs if store.has(config.hash)]
    return report._replace(outcomes={one.hash: store.outcome(one) for one in saved})


def score_runs(
    job: Job, task: str, configs: Sequence[Config], gpus: int, processes: int
) -> Report:
    """Score trained runs in several processes, or in this one if `processes` is 0."""
    torch.set_num_threads(1)
    left, outcomes = list(configs), dict[str, RunOutcome]()

    def next_run(_: Sequence[str]) -> Config | None:
        return left.pop(0) if left else None

    with Attempt(job.progress, task, f"scoring {len(configs)} models"):
        try:
            with (
                _study(job) as store,
                Scorer(store, _device(gpus), processes, next_run, outcomes.update) as scorer,
            ):
                while scorer.tick() or scorer.busy:
                    scorer.wait(WAIT_SECONDS)
                return Report(outcomes)
        except UnusableNodeError as error:
            return Report(unusable=str(error))


class Forwarding(Callback):
    """Forwards the tables of an attempt to the driver, where the callbacks are."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    def on_window(self, table: pd.DataFrame) -> None:
        self._forward("on_window", table)

    def on_diagnostics(self, table: pd.DataFrame) -> None:
        self._forward("on_diagnostics", table)

    def _forward(self, hook: str, table: pd.DataFrame) -> None:
        attempt = self.attempt
        attempt.progress.forward.remote(attempt.task, attempt.number, hook, table)


def _device(gpus: int) -> torch.device:
    return torch.device("cuda" if gpus else "cpu")


@contextmanager
def _study(job: Job) -> Iterator[Store]:
    """Open the study; if it is at a URL, use a temporary folder for the duration of the task."""
    for module in job.plugins:
        allow(module)
    if not is_url(job.folder):
        yield _checked(Store(job.folder), job.token)
        return
    with temporary_folder(Path(tempfile.gettempdir()) / "unweave-study") as scratch:
        store = RemoteStore(job.folder, scratch)
        _checked(store, job.token)
        store.download_files(STUDY)
        store.runs.mkdir(exist_ok=True)
        yield store


def _checked(store: Store, token: str) -> Store:
    """Return the study, or raise an error if this node cannot access the driver's folder."""
    if not store.has_token(token):
        raise UnusableNodeError(
            f"{socket.gethostname()} cannot access {store.place}; use a folder that all nodes "
            "share under the same path, or a URL"
        )
    return store
