"""The driver of a study on Ray, which plans fleets, submits tasks and records their outcomes."""

import os
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from unweave.errors import UnweaveError
from unweave.fleet.callbacks import Callbacks
from unweave.fleet.loop import interruptible
from unweave.io.extensions import module_file, module_of, references_in
from unweave.models.config import Config
from unweave.progress import say
from unweave.study.local import HEARTBEAT_SECONDS, finish
from unweave.study.on_ray.cluster import Slot, connected, on_node, slots
from unweave.study.on_ray.progress import SILENT_SECONDS, AttemptStatus, Progress, StudyWatch
from unweave.study.on_ray.tasks import Job, Report, score_runs, train_runs
from unweave.study.results import TableWriter
from unweave.study.store import Store
from unweave.study.training import Claims, RunOptions
from unweave.study.workers import Worker, new_token

__all__ = ["run_on_ray"]

WAIT_SECONDS = 0.5
POLL_SECONDS = 3.0
"""Interval for checking the cluster's nodes and for submitting further tasks."""
STOP_SECONDS = 120.0
"""Time limit for tasks to write a checkpoint after Ctrl-C."""
EMPTY_SECONDS = 60.0
"""Time limit for a cluster without any usable node."""
MAX_ATTEMPTS = 3
"""Number of attempts at a task before its runs are marked as failed."""
LONG_SECONDS = 600.0
"""Lifetime of a process after which its death is not blamed on its task."""
MAX_TRAINED, MAX_SCORED = 512, 8
"""Largest number of runs that one task trains if no fleet size is given, and that each process of
a task scores."""
GPU_SHARES = {"train": 0.75, "score": 0.25}
"""Share of a GPU for each kind of task; a GPU trains one fleet while it encodes other runs."""


@dataclass
class Task:
    """A submitted task."""

    job: str  # `"train"` or `"score"`
    worker: Worker  # the worker that represents the task in the ledger
    configs: Sequence[Config]  # the settings of its runs
    slot: Slot  # the slot that it was submitted to
    cpus: float  # number of cores requested from Ray
    status: AttemptStatus | None = None  # status of the last attempt, if any

    @property
    def runs(self) -> list[str]:
        """The names of its runs."""
        return [config.hash for config in self.configs]

    @property
    def node(self) -> str:
        """The node where it runs, or to which it was submitted."""
        return self.slot.node if self.status is None else self.status.node

    def fits(self, slot: Slot) -> bool:
        """Whether Ray could restart it in a slot."""
        return slot.gpus >= self.slot.gpus and slot.cpus >= self.cpus


class TaskClaims(Claims):
    """Claims of runs for tasks, which measure themselves how many models fit on their device."""

    num_slots = 0

    def _num_workers(self) -> int:
        return self.num_slots

    def _size(self, fleet: str, runs: Sequence[str]) -> int:  # noqa: ARG002 - nothing is measured
        return self.sizes.get(fleet) or self.fleet_size or MAX_TRAINED


def run_on_ray(store: Store, on: str, options: RunOptions) -> None:
    """Train and score all runs of a study on a Ray cluster.

    Args:
        store: The prepared study.
        on: `"ray"` for a new local cluster, or `"auto"`, `"host:port"` or `"ray://host:port"` for
            a running one.
        options: Options of the run. `device` defaults to GPUs if the cluster has any; `scorers`
            is the number per GPU, or per node in a cluster without GPUs.
    """
    with (
        connected(on, _plugins(store)),
        _token(store) as token,
        StudyWatch(store.ledger, options.progress) as watch,
    ):
        driver = Driver(store, token, options)
        try:
            with interruptible() as stopped:
                while driver.advance(stopped()):
                    watch.show()
        finally:
            driver.end()
            finish(store)


def _plugins(store: Store) -> dict[str, Path]:
    """The modules of custom methods, metrics, architectures and data sets, and their files."""
    plugins: dict[str, Path] = {}
    for reference in references_in(store.study.to_dict()):
        file = module_file(module_of(reference))
        if module_of(reference) == "__main__" or file is None:
            raise UnweaveError(
                f"{reference} cannot be imported by tasks on Ray; move it into a module file",
                subject=reference,
            )
        plugins[module_of(reference)] = file
    return plugins


@contextmanager
def _token(store: Store) -> Iterator[str]:
    """Write a file in the study's folder by which tasks recognise the folder."""
    token = new_token()
    store.write_token(token)
    try:
        yield token
    finally:
        store.remove_token(token)


class Driver:
    """Submits the tasks of a study and records their outcomes in the ledger."""

    def __init__(self, store: Store, token: str, options: RunOptions) -> None:
        import ray

        self.ray: Any = ray
        self.store, self.ledger, self.table = store, store.ledger, TableWriter(store)
        self.device = None if options.device is None else torch.device(options.device).type
        self.scorers = options.scorers if store.metrics else 0
        self.slots = slots(ray.nodes(), self.device)
        if not self.slots:
            raise UnweaveError(
                "the Ray cluster has no GPU; omit the device to train on CPUs"
                if self.device == "cuda"
                else "the Ray cluster has no node with a CPU core; add one with `ray start`",
                subject="device",
                value=self.device,
            )
        here = ray.get_runtime_context().get_node_id()
        actor = ray.remote(Progress).options(**on_node(here, strict=True), num_cpus=0)
        self.progress: Any = actor.remote()
        self.callbacks = options.callbacks
        quiet = replace(options, progress=False, callbacks=Callbacks())
        forwards, plugins = bool(self.callbacks.callbacks), list(_plugins(store))
        self.job = Job(store.address, token, self.progress, quiet, plugins, forwards)
        # Keyed by number of GPUs: a process that has used a GPU cannot switch to another.
        self.functions = {
            ("train", 0): ray.remote(train_runs),
            ("train", 1): ray.remote(max_calls=1)(train_runs),
            ("score", 0): ray.remote(score_runs),
            ("score", 1): ray.remote(max_calls=1)(score_runs),
        }
        cpu = torch.device("cpu")  # for cost estimates, which are only compared with each other
        self.claims = TaskClaims(store, _new_worker(), cpu, options.fleet_size)
        self.claims.mixed = all(slot.gpus for slot in self.slots)
        self.tasks: dict[Any, Task] = {}
        self.unusable: dict[str, str] = {}
        self.heartbeat_due = self.poll_due = self.submit_due = self.stopping_since = 0.0
        self.empty_since = time.monotonic()

    def advance(self, stopping: bool) -> bool:
        """Collect finished tasks and submit new ones; return whether any work is left."""
        self._collect()
        self._update_status()
        now = time.monotonic()
        if stopping or self.callbacks.stopping:
            return self._stop(now)
        if now >= self.poll_due:
            self._update_slots(now)
            self.poll_due = now + POLL_SECONDS
        if now >= self.submit_due:
            self._submit()
        try:
            self.table.write_if_due()
        except UnweaveError as error:  # it is written once more at the end
            self.table.due = now + EMPTY_SECONDS
            say(str(error))
        return bool(self.tasks or self.ledger.busy())

    def end(self) -> None:
        """Cancel all remaining tasks and release their runs."""
        with suppress(self.ray.exceptions.RayError):  # the cluster may be gone
            for ref in self.tasks:
                self.ray.cancel(ref, force=True)
            self.ray.kill(self.progress)
        for task in self.tasks.values():
            self.ledger.release(task.worker)

    def _collect(self) -> None:
        """Record the outcomes of tasks that have ended."""
        refs = list(self.tasks)
        if not refs:
            time.sleep(WAIT_SECONDS)
            return
        self.ray.wait(refs, num_returns=1, timeout=WAIT_SECONDS)
        ended, _ = self.ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in ended:
            self._end_task(ref, self.tasks.pop(ref))
            self.submit_due = 0.0

    def _end_task(self, ref: Any, task: Task) -> None:
        try:
            report: Report = self.ray.get(ref)
        except self.ray.exceptions.TaskCancelledError:
            pass
        except (
            self.ray.exceptions.RayTaskError,
            self.ray.exceptions.RuntimeEnvSetupError,
        ) as error:
            self._give_up_node(task, str(error).strip().splitlines()[-1])
        except self.ray.exceptions.RayError:
            # All attempts have failed. After hours that may be chance, so the runs stay open.
            self._report_death(task, task.status)
            if task.status is None or task.status.seconds < LONG_SECONDS:
                message = f"the worker process died {MAX_ATTEMPTS} times, possibly out of memory"
                self.ledger.mark(task.runs, "failed", message)
        else:
            self._record(task, report)
        self._close(task)

    def _record(self, task: Task, report: Report) -> None:
        self.ledger.record(report.outcomes)
        rest = [run for run in task.runs if run not in report.outcomes]
        if report.unusable is not None:
            self._give_up_node(task, report.unusable)
        elif report.too_many and len(rest) > 1:
            # Another program has since taken memory: retry with half as many models.
            self.claims.sizes[self.claims.key(task.configs[0])] = len(rest) // 2
        elif report.error is not None:
            self.ledger.mark(rest, "failed", report.error)
        if report.speed is not None:
            for kind in {config.kind for config in task.configs}:
                self.ledger.record_speed(kind, *report.speed)

    def _update_status(self) -> None:
        """Read the progress of tasks and record their heartbeats in the ledger."""
        try:
            names = [task.worker.name for task in self.tasks.values()]
            found = self.ray.get(self.progress.of.remote(names))
            tables = self.ray.get(self.progress.take.remote()) if self.job.forwards else []
        except self.ray.exceptions.RayError as error:
            raise UnweaveError(
                "lost the connection to the Ray cluster; run the same command again to resume "
                "from the last checkpoints"
            ) from error
        for hook, table in tables:
            self.callbacks.call(hook, table)
        due = time.monotonic() >= self.heartbeat_due
        for task in self.tasks.values():
            before, task.status = task.status, found.get(task.worker.name)
            begun = task.status is not None and (
                before is None or before.number < task.status.number
            )
            if begun and before is not None:
                self._report_death(task, before)
            if begun and task.job == "train":
                self.ledger.mark(task.runs, "training")
            if begun or due:
                status = task.status
                self.ledger.heartbeat(
                    task.worker, f"{status.place}: {status.doing}" if status else ""
                )
        if due:
            self.heartbeat_due = time.monotonic() + HEARTBEAT_SECONDS

    def _update_slots(self, now: float) -> None:
        """Update the list of slots, and cancel tasks that Ray can no longer run."""
        nodes = self.ray.nodes()
        alive = {node["NodeID"] for node in nodes if node["Alive"]}
        found = slots(nodes, self.device)
        self.slots = [slot for slot in found if slot.node not in self.unusable]
        self.claims.num_slots = len(self.slots)
        if self.slots:
            self.empty_since = now
        elif found:
            raise UnweaveError(self.unusable[found[-1].node])
        elif now - self.empty_since > EMPTY_SECONDS:
            raise UnweaveError(
                "the Ray cluster has no nodes left; add nodes and run the same command again to "
                "resume from the last checkpoints"
            )
        for ref, task in list(self.tasks.items()):
            if task.node in alive:
                continue
            # Ray is slow to notice an unreachable node whose processes are still running.
            silent = task.status is not None and task.status.silent > SILENT_SECONDS
            if silent or (self.slots and not any(map(task.fits, self.slots))):
                self.ray.cancel(ref, force=True)
                self._report_death(task, task.status)
                self._close(self.tasks.pop(ref))

    def _close(self, task: Task) -> None:
        """Release the runs of a task and invalidate all its attempts."""
        self.ray.get(self.progress.close.remote(task.worker.name))
        self.ledger.release(task.worker)

    def _report_death(self, task: Task, status: AttemptStatus | None) -> None:
        if not self.stopping_since:
            name = task.slot.name if status is None else status.place
            say(f"the worker on {name} died; its runs will be resumed elsewhere")

    def _give_up_node(self, task: Task, why: str) -> None:
        """Stop submitting tasks to the node of a task."""
        if not self.stopping_since:
            say(f"no longer using {task.slot.name}: {why}")
        self.unusable[task.node] = why

    def _submit(self) -> None:
        """Submit training and scoring tasks to free slots while there are runs to claim."""
        end = time.monotonic() + POLL_SECONDS  # claims take seconds in the largest studies
        for job in GPU_SHARES:
            while (slot := self._free_slot(job)) and time.monotonic() < end:
                worker = _new_worker()
                configs = self._claim(job, worker, slot)
                if not configs:
                    self.ledger.release(worker)
                    break
                self._start(job, worker, configs, slot)
        self.submit_due = time.monotonic() + POLL_SECONDS

    def _free_slot(self, job: str) -> Slot | None:
        """A free slot, or None if there are already as many tasks of this job as slots."""
        busy = Counter(task.node for task in self.tasks.values() if task.job == job)
        if busy.total() >= len(self.slots):
            return None
        return min(self.slots, key=lambda slot: (busy[slot.node] > slot.number, slot.number))

    def _claim(self, job: str, worker: Worker, slot: Slot) -> list[Config]:
        if job == "train":
            self.claims.worker = worker
            return self.claims.next_fleet()
        count = MAX_SCORED * max(1, self._num_scorers(slot))
        return self.store.configs(self.ledger.claim_trained(worker, count))

    def _start(self, job: str, worker: Worker, configs: Sequence[Config], slot: Slot) -> None:
        """Submit a task to a slot; Ray may restart it anywhere."""
        cores = self._cores(slot, slot.cpus)[job]
        # Request no more cores than the smallest slot has, so that Ray can choose any slot.
        cpus = self._cores(slot, min(other.cpus for other in self.slots))[job]
        remote = self.functions[job, slot.gpus].options(
            **on_node(slot.node),
            num_cpus=cpus,
            num_gpus=slot.gpus * GPU_SHARES[job],
            max_retries=MAX_ATTEMPTS - 1,
        )
        given = os.environ.get("OMP_NUM_THREADS", "")
        threads = int(given) if given.isdecimal() else max(1, int(cores))
        count = threads if job == "train" else self._num_scorers(slot)
        ref = remote.remote(self.job, worker.name, configs, slot.gpus, count)
        self.tasks[ref] = Task(job, worker, configs, slot, cpus)

    def _cores(self, slot: Slot, cores: float) -> dict[str, float]:
        """Split cores between jobs: mostly to scoring with a GPU, otherwise about in half."""
        scorers = self._num_scorers(slot)
        train = min(1, cores / 2) if slot.gpus else max(cores / 2, cores - scorers)
        return {"train": train, "score": cores - train}

    def _num_scorers(self, slot: Slot) -> int:
        return slot.scorers if self.scorers is None else self.scorers

    def _stop(self, now: float) -> bool:
        """Ask all tasks to write a checkpoint and end, and wait for them up to a limit."""
        if not self.stopping_since:
            self.stopping_since = now
            for ref in self.tasks:
                self.ray.cancel(ref)
        if self.tasks and now - self.stopping_since < STOP_SECONDS:
            return True
        raise self.callbacks.interruption("stopped; run the same command again to resume")


def _new_worker() -> Worker:
    """A worker that represents a task in the ledger and is alive while this process is."""
    return Worker.here()._replace(name=f"ray-{uuid.uuid4().hex}")
