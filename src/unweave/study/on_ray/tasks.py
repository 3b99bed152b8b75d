"""What runs as tasks on the nodes of a Ray cluster: training a fleet, encoding runs, scoring one.

Tasks know the study by its folder or URL and never open its ledger: they return what has become of
their runs.
"""

import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
from unweave.study.scoring import Encoded, compute, encode_run, keep_scores
from unweave.study.store import Store
from unweave.study.training import NoRoomError, is_out_of_memory, train_fleet

__all__ = ["Job", "Report", "encode_runs", "score_run", "train_runs"]


class Job(NamedTuple):
    """What every task needs to know.

    Args:
        folder: The study's folder or URL.
        token: The name of a file there, by which a task sees that it is the driver's folder.
        progress: The actor `Progress`.
        fleet_size: How many models to train at once; by default as many as fit.
        checkpoint_every: Seconds between checkpoints.
        scores_here: Whether runs are scored by the task that encodes them.
    """

    folder: str
    token: str
    progress: Any
    fleet_size: int | None
    checkpoint_every: float
    scores_here: bool


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
    device = torch.device("cuda" if gpus else "cpu")
    seconds = error = None
    with Attempt(job.progress, task, f"preparing {len(configs)} models") as attempt:
        try:
            with _study(job) as store:
                sources = Sources(store)
                try:
                    for fleet in _fleets(store, sources, configs, device, job.fleet_size):
                        seconds = train_fleet(
                            store,
                            sources,
                            fleet,
                            device,
                            progress=False,
                            checkpoint_every=job.checkpoint_every,
                            meanwhile=lambda doing: _meanwhile(attempt, store, doing),
                        )
                except (InterruptedTrainingError, NoRoomError):
                    raise
                except Exception as trouble:  # the runs say so, the study goes on
                    error = trouble
                return Report(
                    {c.hash: outcome_of(store, c) for c in configs if store.has(c.hash)},
                    None if error is None else sentence(error),
                    None if seconds is None else (device_name(device), seconds),
                    error is not None and is_out_of_memory(error),
                )
        except InterruptedTrainingError:
            return Report()
        except (NoRoomError, UnusableNodeError) as unusable:
            return Report(unusable=str(unusable))


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


def encode_runs(
    job: Job, task: str, configs: Sequence[Config], gpus: int, threads: int
) -> Iterator[Encoded | Report | None]:
    """Encode trained runs: what is to be scored of each of them, and at last a report.

    Args:
        job: The study.
        task: The name of the task.
        configs: The runs.
        gpus: Whether to encode on a GPU, 1 or 0.
        threads: How many cores to use.
    """
    torch.set_num_threads(threads)
    device = torch.device("cuda" if gpus else "cpu")
    with Attempt(job.progress, task, f"encoding {len(configs)} models"):
        outcomes: dict[str, RunOutcome] = {}
        unusable = None
        try:
            with _study(job) as store:
                sources = Sources(store)
                for config in configs:
                    try:
                        encoded = encode_run(store, sources, config, device)
                        if isinstance(encoded, Encoded) and job.scores_here:
                            encoded = _scored(store, encoded)
                    except Exception as error:  # one run's trouble is its own
                        encoded = RunOutcome("failed", sentence(error))
                    if isinstance(encoded, RunOutcome):
                        outcomes[config.hash] = encoded
                    yield encoded if isinstance(encoded, Encoded) else None
        except UnusableNodeError as error:
            unusable = str(error)
            yield from [None] * len(configs)
        yield Report(outcomes, unusable=unusable)


def score_run(job: Job, encoded: Encoded) -> RunOutcome:
    """Compute the scores of an encoded run and keep them beside it."""
    torch.set_num_threads(1)
    with _study(job) as store:
        store.bring([encoded.config.hash])
        # Arrays that come from Ray are read-only, and shared by all tasks of a node.
        own: dict[str, Any] = {
            n: v.copy() for n, v in vars(encoded.codes).items() if isinstance(v, np.ndarray)
        }
        return _scored(store, encoded._replace(codes=replace(encoded.codes, **own)))


def _scored(store: Store, encoded: Encoded) -> RunOutcome:
    said = compute(encoded.wanted, encoded.codes)
    trouble = keep_scores(store, encoded.config, encoded.wanted, said)
    return outcome_of(store, encoded.config, [*encoded.trouble, *trouble])


def _meanwhile(attempt: Attempt, store: Store, doing: str) -> None:
    attempt.report(doing)
    try:
        store.hand_in_checkpoints()
    except Exception as error:  # the fleet that trains does not suffer for this
        attempt.doing = f"{doing}; {sentence(error)}"


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
