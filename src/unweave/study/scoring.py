"""Scoring during training: this process encodes, other processes compute the metrics.

Encoding a data set takes a fraction of a second per model on a GPU; scoring the codes takes many
seconds on a core. The training process therefore checks a few times per second whether a core is
free (`Scorer.tick`). If so, it encodes the next trained run and passes on the codes, so that slow
metrics never keep the GPU waiting.
"""

import multiprocessing
import multiprocessing.context
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from typing import Any, NamedTuple, Self

import torch

from unweave.errors import UnweaveError
from unweave.evaluation.codes import Posteriors, apply_metric, encode
from unweave.evaluation.score_cache import Outcome, add_to_cache
from unweave.io.extensions import allow, is_reference, module_of
from unweave.metrics import find_metric
from unweave.models.config import Config
from unweave.models.model import load
from unweave.study.ledger import RunOutcome, one_line
from unweave.study.run_folder import SEED, StudyMetric
from unweave.study.store import Store

__all__ = ["Scorer"]

SLOW = ("unweave.metrics.tools.trees", "sklearn.linear_model")
"""Modules that most metrics need and that take a second to import."""
POLL_SECONDS = 1.0
"""Interval for requesting trained runs after none was available."""


class _Job(NamedTuple):
    """A run that is being scored."""

    config: Config  # the settings of the run
    metrics: Sequence[StudyMetric]  # the metrics to compute
    codes: Posteriors  # the encoded data
    problems: Sequence[str]  # errors of metrics that were computed in this process
    alone: bool = False  # whether it is retried alone after the process pool died


class Scorer:
    """Scores the trained runs of a study in separate processes.

    Args:
        store: The study.
        device: Device for encoding.
        processes: Number of processes; with 0, this process computes the metrics.
        next_run: Function that returns the next run to score, or None, given the names of the
            runs that are being scored.
        record: Callback that receives the outcomes of runs, by name.
    """

    def __init__(
        self,
        store: Store,
        device: torch.device,
        processes: int,
        next_run: Callable[[Sequence[str]], Config | None],
        record: Callable[[dict[str, RunOutcome]], None],
    ) -> None:
        self.store, self.device, self.processes = store, device, processes
        self.next_run, self.record = next_run, record
        self.jobs: dict[Future[Any], _Job] = {}
        self.suspects: list[_Job] = []
        self.pool: ProcessPoolExecutor | None = None
        self.done = 0
        self.poll_due = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def busy(self) -> bool:
        """Whether any run is being scored."""
        return bool(self.jobs or self.suspects)

    def tick(self) -> bool:
        """Collect results and give every free process a run; return whether anything changed."""
        changed = self._collect()
        if self.suspects and not self.jobs:
            self._submit(self.suspects.pop(0)._replace(alone=True))
        if self.suspects or any(job.alone for job in self.jobs.values()):
            return True
        # One more run than processes, so that no process waits for the next `tick`.
        while len(self.jobs) <= self.processes and time.monotonic() >= self.poll_due:
            config = self.next_run([job.config.hash for job in self.jobs.values()])
            if config is None:
                self.poll_due = time.monotonic() + POLL_SECONDS
                break
            self._begin(config)
            changed = True
        return changed

    def look_now(self) -> None:
        """Request runs at the next `tick`, because some have been trained."""
        self.poll_due = 0.0

    def wait(self, seconds: float) -> None:
        """Wait until a run is scored, at most for the given time."""
        if self.jobs:
            wait(self.jobs, seconds, "FIRST_COMPLETED")

    def _begin(self, config: Config) -> None:
        try:
            self.store.download([config.hash])
            missing = self.store.missing(config)
            if not missing:
                self._finish(config, [])
                return
            data = self.store.data_of(config, self.device)
            model = load(self.store.runs / config.hash, self.device)
            codes = encode(model, data, SEED)
            # Image metrics need the decoder, and other processes cannot import the main script.
            here = [m for m in missing if m.metric.of_images or module_of(m.name) == "__main__"]
            problems = self._save(config, here, _score(_names(here), codes))
            there = [m for m in missing if m not in here]
            with_logvars = any(m.sampled or "logvars" in m.metric.takes for m in there)
            self._submit(_Job(config, there, codes.of(0, with_logvars), problems))
        except Exception as error:  # recorded for this run; the others continue
            self._fail(config, error)

    def _submit(self, job: _Job) -> None:
        names = _names(job.metrics)
        if not self.processes:
            self._complete(job, _score(names, job.codes))
            return
        with _without_main():
            try:
                future = self._open_pool().submit(_score, names, job.codes)
            except (BrokenProcessPool, OSError):  # OSError while the pool is just breaking
                self._discard_pool()
                future = self._open_pool().submit(_score, names, job.codes)
        self.jobs[future] = job

    def _open_pool(self) -> ProcessPoolExecutor:
        if self.pool is None:
            self.pool = ProcessPoolExecutor(self.processes, _context(), _prepare)
        return self.pool

    def _collect(self) -> bool:
        finished = [future for future in self.jobs if future.done()]
        for future in finished:
            job = self.jobs.pop(future)
            try:
                self._complete(job, future.result())
            except BrokenProcessPool as error:
                if self.pool is not None and self.pool._broken:
                    self._discard_pool()
                self._suspect(job, error)
            except Exception as error:  # recorded for this run; the others continue
                self._fail(job.config, error)
        return bool(finished)

    def _discard_pool(self) -> None:
        """Kill the remaining processes of a pool in which a process died.

        Python terminates them too, but may miss a process that is just starting and wait for it.
        """
        if self.pool is not None:
            for process in list((self.pool._processes or {}).values()):
                process.kill()
            self.pool = None

    def _suspect(self, job: _Job, error: BrokenProcessPool) -> None:
        """Retry a job alone to find out which one killed the pool; fail it the second time."""
        if job.alone:
            self._fail(job.config, UnweaveError(f"the scoring process died ({error})"))
        else:
            self.suspects.append(job)

    def _complete(self, job: _Job, outcomes: Sequence[Outcome]) -> None:
        problems = self._save(job.config, job.metrics, outcomes)
        self._finish(job.config, [*job.problems, *problems])

    def _save(
        self, config: Config, metrics: Sequence[StudyMetric], outcomes: Sequence[Outcome]
    ) -> list[str]:
        """Cache the outcomes of metrics; return the errors of those to be tried again."""
        both = list(zip(metrics, outcomes, strict=True))
        found = {metric.key(config): one for metric, one in both if not one.transient}
        if found:
            add_to_cache(self.store.runs / config.hash, found)
            self.store.upload([config.hash])
        return [f"no {m.metric.name}: {one.error}" for m, one in both if one.transient]

    def _finish(self, config: Config, problems: Sequence[str]) -> None:
        outcome = self.store.outcome(config, problems)
        self.record({config.hash: outcome})
        self.done += outcome.state != "failed"

    def _fail(self, config: Config, error: Exception) -> None:
        self.record({config.hash: RunOutcome("failed", one_line(error))})

    def _stop(self) -> None:
        """Stop the processes, immediately if they are busy: their results are discarded."""
        if self.pool is None:
            return
        at_work = list((self.pool._processes or {}).values()) if self.jobs else []
        self.pool.shutdown(wait=not self.jobs, cancel_futures=True)
        for process in at_work:
            process.terminate()


def _context() -> multiprocessing.context.BaseContext:
    """Start method: on Linux, forks of a server process that has imported all modules.

    The imports take seconds and hundreds of megabytes, which the forks share. On other systems
    forking is unavailable or unsafe, and each process imports the modules itself.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *SLOW])
    return context


def _prepare() -> None:
    """Set up a scoring process: ignore Ctrl-C, use one core, and exit with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _names(metrics: Sequence[StudyMetric]) -> list[tuple[str, bool]]:
    return [(one.name, one.sampled) for one in metrics]


def _score(names: Sequence[tuple[str, bool]], codes: Posteriors) -> list[Outcome]:
    """Compute metrics of codes; custom metrics are imported in the scoring process."""
    outcomes: list[Outcome] = []
    for name, sampled in names:
        if is_reference(name):
            allow(module_of(name))
        try:
            outcomes.append(apply_metric(find_metric(name), codes, 0, sampled))
        except Exception as error:  # recorded for this metric; the others continue
            outcomes.append(Outcome({}, one_line(error), transient=True))
    return outcomes


@contextmanager
def _without_main() -> Iterator[None]:
    """Prevent new processes from importing the user's script, which would run it again."""
    main = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {n: main.pop(n) for n in ("__spec__", "__file__") if n in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        del main["__spec__"]
        main.update(hidden)
