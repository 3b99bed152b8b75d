"""The process that runs a study on Ray: plans fleets, submits tasks, records their outcomes."""

import os
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet.loop import interruptible
from unweave.io.extensions import module_file, module_of, references_in
from unweave.models.config import Config
from unweave.progress import say
from unweave.study.claiming import Claims
from unweave.study.datasets import Sources
from unweave.study.on_ray.cluster import Place, connected, on_node, places
from unweave.study.on_ray.progress import SILENT_SECONDS, AttemptStatus, Progress
from unweave.study.on_ray.tasks import Job, Report, score_runs, train_runs
from unweave.study.outcomes import record
from unweave.study.remote import RemoteStore
from unweave.study.results import TableWriter
from unweave.study.status import StudyWatch
from unweave.study.store import Store
from unweave.study.tokens import new_token
from unweave.study.work import BEAT_SECONDS, finish
from unweave.study.workers import Worker

__all__ = ["run_on_ray"]

WAIT_SECONDS = 0.5
LOOK_SECONDS = 3.0
"""Between looks at the nodes of the cluster, and for runs that other processes have released."""
STOP_SECONDS = 120.0
"""How long tasks have to write a checkpoint after Ctrl-C."""
EMPTY_SECONDS = 60.0
"""How long a cluster may be without any node to work on."""
DEATHS = 3
"""How often processes may die with a task before its runs are given up."""
LONG_SECONDS = 600.0
"""A process that lived longer than this did not die of what it was doing."""
TRAINED, SCORED = 512, 8
"""The most runs that one task trains, where no fleet size is given, and that each process of one
task scores."""
GPU_SHARES = {"train": 0.75, "score": 0.25}
"""A GPU trains one fleet while it encodes the runs of others."""


@dataclass
class Task:
    """A task that was submitted.

    Args:
        job: `"train"` or `"score"`.
        worker: Who the ledger says is at work.
        configs: Its runs.
        place: Where it should run.
        cpus: How many cores it asks Ray for.
        status: The last attempt at it.
    """

    job: str
    worker: Worker
    configs: Sequence[Config]
    place: Place
    cpus: float
    status: AttemptStatus | None = None

    @property
    def runs(self) -> list[str]:
        """The names of its runs."""
        return [config.hash for config in self.configs]

    @property
    def node(self) -> str:
        """Where it runs, or should."""
        return self.place.node if self.status is None else self.status.node

    def fits(self, place: Place) -> bool:
        """Whether Ray could restart it at a place."""
        return place.gpus >= self.place.gpus and place.cpus >= self.cpus


class TaskClaims(Claims):
    """Runs for tasks, which measure for themselves how many fit on their device."""

    num_places = 0

    def _num_workers(self) -> int:
        return self.num_places

    def _size(self, kind: str, runs: Sequence[str]) -> int:  # noqa: ARG002 - nothing is measured
        return self.sizes.get(kind) or self.fleet_size or TRAINED


def run_on_ray(store: Store, on: str, progress: bool, options: dict[str, Any]) -> None:
    """Work on a study with all of a Ray cluster until nothing is left.

    Args:
        store: The study, prepared.
        on: `"ray"`, one of its own; `"auto"`, `"host:port"` or `"ray://host:port"`, one that runs.
        progress: Whether to show how far it is.
        options: As of `Work`: device, fleet_size, scorers, checkpoint_every.
    """
    with (
        connected(on, _plugins(store)),
        _token(store) as token,
        StudyWatch(store.ledger, progress) as watch,
    ):
        driver = Driver(store, token, **options)
        try:
            with interruptible() as stopped:
                while driver.advance(stopped()):
                    watch.show()
        finally:
            driver.end()
            finish(store)


def _plugins(store: Store) -> dict[str, Path]:
    """The modules of users' methods, metrics, architectures and data sets, and their files."""
    plugins: dict[str, Path] = {}
    for reference in references_in(store.study.to_dict()):
        file = module_file(module_of(reference))
        if module_of(reference) == "__main__" or file is None:
            raise UnweaveError(
                f"{reference} is not in a module of its own, so tasks on Ray cannot import it; "
                "move it into one"
            )
        plugins[module_of(reference)] = file
    return plugins


@contextmanager
def _token(store: Store) -> Iterator[str]:
    """A file in the study's folder by which tasks see that it is the same folder."""
    token = new_token()
    store.leave(token)
    try:
        yield token
    finally:
        store.take_back(token)


class Driver:
    """Submits a study's tasks, and records in the ledger what has become of them.

    Args:
        store: The study.
        token: The name of a file in its folder; see `Job`.
        device: By default GPUs, where the cluster has any.
        fleet_size: How many models to train at once; by default as many as fit.
        scorers: How many scores to compute at once for each GPU, or node without one.
        checkpoint_every: Seconds between checkpoints.
    """

    def __init__(
        self,
        store: Store,
        token: str,
        device: str | torch.device | None,
        fleet_size: int | None,
        scorers: int | None,
        checkpoint_every: float,
    ) -> None:
        import ray

        self.store, self.ledger, self.table = store, store.ledger, TableWriter(store)
        self.device = None if device is None else torch.device(device).type
        self.scorers = scorers if store.wanted else 0
        self.places = places(ray.nodes(), self.device)
        if not self.places:
            raise UnweaveError(
                "the Ray cluster has no GPU; leave the device out to train on its cores"
                if self.device == "cuda"
                else "the Ray cluster has no node with a core to work on; start one with "
                "`ray start`"
            )
        here = ray.get_runtime_context().get_node_id()
        actor = ray.remote(Progress).options(**on_node(here, only=True), num_cpus=0)
        self.progress: Any = actor.remote()
        folder = store.url if isinstance(store, RemoteStore) else str(store.folder.absolute())
        self.job = Job(folder, token, self.progress, fleet_size, checkpoint_every)
        # By their GPUs: a process that has used one could not be given another.
        self.functions = {
            ("train", 0): ray.remote(train_runs),
            ("train", 1): ray.remote(max_calls=1)(train_runs),
            ("score", 0): ray.remote(score_runs),
            ("score", 1): ray.remote(max_calls=1)(score_runs),
        }
        device = torch.device("cpu")  # costs are only compared with each other
        self.claims = TaskClaims(store, _new_worker(), Sources(store), device, fleet_size)
        self.tasks: dict[Any, Task] = {}
        self.unusable: dict[str, str] = {}
        self.beat_due = self.look_due = self.submit_due = self.stopping_since = 0.0
        self.empty_since = time.monotonic()

    def advance(self, stopping: bool) -> bool:
        """Wait for tasks, submit others; whether anything is left to do.

        Args:
            stopping: Whether to stop.
        """
        self._collect()
        self._follow()
        now = time.monotonic()
        if stopping:
            return self._stop(now)
        if now >= self.look_due:
            self._look_at_nodes(now)
            self.look_due = now + LOOK_SECONDS
        if now >= self.submit_due:
            self._submit()
        try:
            self.table.write_if_due()
        except UnweaveError as error:  # it is written once more at the end
            self.table.due = now + EMPTY_SECONDS
            say(str(error))
        return bool(self.tasks or self.ledger.busy())

    def end(self) -> None:
        """End all tasks that are left, and release their runs."""
        import ray

        with suppress(ray.exceptions.RayError):  # there may be no cluster any more
            for ref in self.tasks:
                ray.cancel(ref, force=True)
            ray.kill(self.progress)
        for task in self.tasks.values():
            self.ledger.release(task.worker)

    def _collect(self) -> None:
        """Record the outcomes of tasks that have ended."""
        import ray

        refs = list(self.tasks)
        if not refs:
            time.sleep(WAIT_SECONDS)
            return
        ray.wait(refs, num_returns=1, timeout=WAIT_SECONDS)
        ended, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in ended:
            self._end_task(ref, self.tasks.pop(ref))
            self.submit_due = 0.0

    def _end_task(self, ref: Any, task: Task) -> None:
        import ray

        try:
            report: Report = ray.get(ref)
        except ray.exceptions.TaskCancelledError:
            pass
        except (ray.exceptions.RayTaskError, ray.exceptions.RuntimeEnvSetupError) as error:
            self._give_up_node(task, str(error).strip().splitlines()[-1])
        except ray.exceptions.RayError:
            # Ray has restarted it in vain; what takes hours may have met that many failures.
            self._mention_death(task, task.status)
            if task.status is None or task.status.seconds < LONG_SECONDS:
                why = "its process ended, perhaps because it ran out of memory"
                self.ledger.mark(task.runs, "failed", f"its worker died {DEATHS} times ({why})")
        else:
            self._record(task, report)
        self._forget(task)

    def _record(self, task: Task, report: Report) -> None:
        record(self.ledger, report.outcomes)
        rest = [run for run in task.runs if run not in report.outcomes]
        if report.unusable is not None:
            self._give_up_node(task, report.unusable)
        elif report.too_many and len(rest) > 1:
            # Somebody else took memory meanwhile: try again with half as many.
            self.claims.sizes[task.configs[0].fleet] = len(rest) // 2
        elif report.error is not None:
            self.ledger.mark(rest, "failed", report.error)
        if report.speed is not None:
            self.ledger.note_speed(task.configs[0].fleet, *report.speed)

    def _follow(self) -> None:
        """Take in how far tasks are, and say in the ledger that they are at work."""
        import ray

        try:
            names = [task.worker.name for task in self.tasks.values()]
            found = ray.get(self.progress.of.remote(names))
        except ray.exceptions.RayError as error:
            raise UnweaveError(
                "the Ray cluster is gone; run the same again to go on from the last checkpoints"
            ) from error
        due = time.monotonic() >= self.beat_due
        for task in self.tasks.values():
            before, task.status = task.status, found.get(task.worker.name)
            begun = task.status is not None and (
                before is None or before.number < task.status.number
            )
            if begun and before is not None:
                self._mention_death(task, before)
            if begun and task.job == "train":
                self.ledger.mark(task.runs, "training")
            if begun or due:
                status = task.status
                self.ledger.beat(task.worker, f"{status.place}: {status.doing}" if status else "")
        if due:
            self.beat_due = time.monotonic() + BEAT_SECONDS

    def _look_at_nodes(self, now: float) -> None:
        """See where tasks can run, and take back those that Ray waits for in vain."""
        import ray

        nodes = ray.nodes()
        living = {node["NodeID"] for node in nodes if node["Alive"]}
        found = places(nodes, self.device)
        self.places = [place for place in found if place.node not in self.unusable]
        self.claims.num_places = len(self.places)
        if self.places:
            self.empty_since = now
        elif found:
            raise UnweaveError(self.unusable[found[-1].node])
        elif now - self.empty_since > EMPTY_SECONDS:
            raise UnweaveError(
                "no node is left in the cluster; start some and run the same again to go on from "
                "the last checkpoints"
            )
        for ref, task in list(self.tasks.items()):
            if task.node in living:
                continue
            # Ray notices only late that a node is out of reach whose processes live on.
            silent = task.status is not None and task.status.silent > SILENT_SECONDS
            if silent or (self.places and not any(map(task.fits, self.places))):
                ray.cancel(ref, force=True)
                self._mention_death(task, task.status)
                self._forget(self.tasks.pop(ref))

    def _forget(self, task: Task) -> None:
        """Release the runs of a task, of which no attempt counts any more."""
        import ray

        ray.get(self.progress.close.remote(task.worker.name))
        self.ledger.release(task.worker)

    def _mention_death(self, task: Task, status: AttemptStatus | None) -> None:
        if not self.stopping_since:
            name = task.place.name if status is None else status.place
            say(f"the worker on {name} died; what it left is taken up elsewhere")

    def _give_up_node(self, task: Task, why: str) -> None:
        """Submit nothing to the node of a task any more."""
        if not self.stopping_since:
            say(f"no worker on {task.place.name} any more: {why}")
        self.unusable[task.node] = why

    def _submit(self) -> None:
        """Have every place train some runs and score others, as far as there are any."""
        end = time.monotonic() + LOOK_SECONDS  # claims take seconds in the largest studies
        for job, claim in (("train", self._claim_to_train), ("score", self._claim_to_score)):
            while (place := self._free_place(job)) and time.monotonic() < end:
                worker = _new_worker()
                configs = claim(worker, place)
                if not configs:
                    self.ledger.release(worker)
                    break
                self._start(job, worker, configs, place)
        self.submit_due = time.monotonic() + LOOK_SECONDS

    def _free_place(self, job: str) -> Place | None:
        """A place for a task, unless as many wait or run already as there are places."""
        busy = Counter(task.node for task in self.tasks.values() if task.job == job)
        if busy.total() >= len(self.places):
            return None
        return min(self.places, key=lambda place: (busy[place.node] > place.number, place.number))

    def _claim_to_train(self, worker: Worker, place: Place) -> list[Config]:  # noqa: ARG002
        self.claims.worker = worker
        return self.claims.next_fleet()

    def _claim_to_score(self, worker: Worker, place: Place) -> list[Config]:
        count = SCORED * max(1, self._num_scorers(place))
        return self.store.configs(self.ledger.claim_trained(worker, count))

    def _start(self, job: str, worker: Worker, configs: Sequence[Config], place: Place) -> None:
        """Submit a task to a place; Ray may restart it anywhere."""
        cores = self._cores(place, place.cpus)[job]
        # Ray is asked for no more than the smallest place has, so that it may choose any.
        cpus = self._cores(place, min(other.cpus for other in self.places))[job]
        remote = self.functions[job, place.gpus].options(
            **on_node(place.node),
            num_cpus=cpus,
            num_gpus=place.gpus * GPU_SHARES[job],
            max_retries=DEATHS - 1,
        )
        given = os.environ.get("OMP_NUM_THREADS", "")
        threads = int(given) if given.isdecimal() else max(1, int(cores))
        count = threads if job == "train" else self._num_scorers(place)
        ref = remote.remote(self.job, worker.name, configs, place.gpus, count)
        self.tasks[ref] = Task(job, worker, configs, place, cpus)

    def _cores(self, place: Place, cores: float) -> dict[str, float]:
        """How some cores are shared: a GPU leaves them to the scores, others halve them."""
        scorers = self._num_scorers(place)
        train = min(1, cores / 2) if place.gpus else max(cores / 2, cores - scorers)
        return {"train": train, "score": cores - train}

    def _num_scorers(self, place: Place) -> int:
        return place.scorers if self.scorers is None else self.scorers

    def _stop(self, now: float) -> bool:
        """Have all tasks write a checkpoint and end, but do not wait for them for ever."""
        import ray

        if not self.stopping_since:
            self.stopping_since = now
            for ref in self.tasks:
                ray.cancel(ref)
        if self.tasks and now - self.stopping_since < STOP_SECONDS:
            return True
        raise InterruptedTrainingError("stopped; run the same again to go on from there")


def _new_worker() -> Worker:
    """A task, which goes in the ledger by this process, with which it ends."""
    return Worker.here()._replace(name=f"ray-{uuid.uuid4().hex}")
