"""What runs as tasks on the nodes of a Ray cluster: training runs, and scoring them.

Tasks know the study by its folder or URL and never open its ledger: they return what has become of
their runs.
"""

import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet.capacity import fits, shares
from unweave.io.writing import temporary_folder
from unweave.models.config import Config
from unweave.study.datasets import Sources
from unweave.study.estimate import device_name
from unweave.study.on_ray.progress import Attempt
from unweave.study.outcomes import RunOutcome, outcome_of, sentence
from unweave.study.remote import RemoteStore, is_url
from unweave.study.scoring import Scorer
from unweave.study.store import Store
from unweave.study.training import NoRoomError, is_out_of_memory, train_fleet
from unweave.study.workers import Worker

__all__ = ["Job", "Report", "score_runs", "train_runs"]

WAIT_SECONDS = 0.5


class Job(NamedTuple):
    """What every task needs to know.

    Args:
        folder: The study's folder or URL.
        token: The name of a file there, by which a task sees that it is the driver's folder.
        progress: The actor `Progress`.
        fleet_size: How many models to train at once; by default as many as fit.
        checkpoint_every: Seconds between checkpoints.
    """

    folder: str
    token: str
    progress: Any
    fleet_size: int | None
    checkpoint_every: float


class Report(NamedTuple):
    """What a task returns for the ledger.

    Args:
        outcomes: What has become of its runs, as far as there is an outcome.
        error: Why the others failed; without, they are open again.
        speed: The device, and the seconds per step of one model on it, if measured.
        too_many: Whether as many models as it had did not fit on its device.
        unusable: Why no task can run on this node.
    """

    outcomes: Mapping[str, RunOutcome] = {}
    error: str | None = None
    speed: tuple[str, float] | None = None
    too_many: bool = False
    unusable: str | None = None


class UnusableNodeError(UnweaveError):
    """A node that does not see the study's folder."""


def train_runs(job: Job, task: str, configs: Sequence[Config], gpus: int, threads: int) -> Report:
    """Train runs that can share a fleet, in as many fleets as it takes.

    Args:
        job: The study.
        task: The name of the task.
        configs: The runs.
        gpus: Whether to train on a GPU, 1 or 0.
        threads: How many cores to use.
    """
    torch.set_num_threads(threads)
    with Attempt(job.progress, task, f"preparing {len(configs)} models") as attempt:
        try:
            with _study(job) as store:
                return _trained(job, attempt, store, configs, _device(gpus))
        except InterruptedTrainingError:
            return Report()
        except (NoRoomError, UnusableNodeError) as error:
            return Report(unusable=str(error))


def _trained(
    job: Job, attempt: Attempt, store: Store, configs: Sequence[Config], device: torch.device
) -> Report:
    sources, report = Sources(store), Report()

    def meanwhile(doing: str) -> None:
        attempt.report(doing)
        try:
            store.hand_in_checkpoints()
        except Exception as error:  # the fleet that trains does not suffer for this
            attempt.doing = f"{doing}; {sentence(error)}"

    try:
        for fleet in _fleets(store, sources, configs, device, job.fleet_size):
            seconds = train_fleet(
                store,
                sources,
                fleet,
                device,
                progress=False,
                checkpoint_every=job.checkpoint_every,
                meanwhile=meanwhile,
            )
            if seconds is not None:
                report = report._replace(speed=(device_name(device), seconds))
    except (InterruptedTrainingError, NoRoomError):
        raise
    except Exception as error:  # the runs say so, the study goes on
        report = report._replace(error=sentence(error), too_many=is_out_of_memory(error))
    saved = [config for config in configs if store.has(config.hash)]
    return report._replace(outcomes={one.hash: outcome_of(store, one) for one in saved})


def _fleets(
    store: Store,
    sources: Sources,
    configs: Sequence[Config],
    device: torch.device,
    fleet_size: int | None,
) -> Iterator[list[Config]]:
    """Runs that are not trained yet in fleets that fit, interrupted ones as they were."""
    left = {config.hash: config for config in configs if not store.has(config.hash)}
    for runs in store.interrupted():
        interrupted = [left.pop(run) for run in runs if run in left]
        if interrupted:
            yield interrupted
    rest = list(left.values())
    if rest:
        size = fleet_size or fits(rest, sources.open(rest[0]), device)
        for count in shares(len(rest), size):
            fleet, rest = rest[:count], rest[count:]
            yield fleet


def score_runs(
    job: Job, task: str, configs: Sequence[Config], gpus: int, processes: int
) -> Report:
    """Score trained runs.

    Args:
        job: The study.
        task: The name of the task.
        configs: The runs.
        gpus: Whether to encode on a GPU, 1 or 0.
        processes: How many processes compute scores; with 0 this one does.
    """
    torch.set_num_threads(1)
    with Attempt(job.progress, task, f"scoring {len(configs)} models"):
        try:
            with (
                _study(job) as store,
                BatchScorer(store, configs, _device(gpus), processes) as scorer,
            ):
                while scorer.tick() or scorer.busy:
                    scorer.wait(WAIT_SECONDS)
                return Report(scorer.outcomes)
        except UnusableNodeError as error:
            return Report(unusable=str(error))


class BatchScorer(Scorer):
    """Scores certain runs, and keeps their outcomes.

    Args:
        store: The study.
        configs: The runs.
        device: Where models encode.
        processes: As of `Scorer`.
    """

    def __init__(
        self, store: Store, configs: Sequence[Config], device: torch.device, processes: int
    ) -> None:
        super().__init__(store, Worker.here(), Sources(store), device, processes)
        self.left = list(configs)
        self.outcomes: dict[str, RunOutcome] = {}

    def _next(self) -> Config | None:
        return self.left.pop(0) if self.left else None

    def _record(self, run: str, outcome: RunOutcome) -> None:
        self.outcomes[run] = outcome


def _device(gpus: int) -> torch.device:
    return torch.device("cuda" if gpus else "cpu")


@contextmanager
def _study(job: Job) -> Iterator[Store]:
    """The study; one at a URL in a folder that lives as long as the task."""
    if not is_url(job.folder):
        yield _checked(Store(job.folder), job.token)
        return
    with temporary_folder(Path(tempfile.gettempdir()) / "unweave-study") as scratch:
        store = RemoteStore(job.folder, scratch)
        _checked(store, job.token)
        store.bring_study()
        store.runs.mkdir(exist_ok=True)
        yield store


def _checked(store: Store, token: str) -> Store:
    """The study, or an error where this node sees another folder than the driver."""
    if not store.sees(token):
        raise UnusableNodeError(
            f"{socket.gethostname()} does not see {store.place}; keep the study in a folder that "
            "all nodes share, under the same path, or at a URL"
        )
    return store
