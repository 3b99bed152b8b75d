"""Scoring beside training: this process encodes, others compute.

Encoding a data set takes a GPU a fraction of a second per model, scoring the codes takes a core
many. So whoever trains also looks, a few times a second, whether a core is free (`Scorer.tick`);
if so it encodes the next trained run and hands the codes over. Trees never keep a GPU waiting.
"""

import multiprocessing
import multiprocessing.context
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from typing import Any, NamedTuple, Self

import torch

from unweave.errors import UnweaveError
from unweave.evaluation.apply import apply
from unweave.evaluation.codes import Posteriors, encode
from unweave.evaluation.score_cache import Outcome, keep
from unweave.io.extensions import allow, is_reference, module_of
from unweave.metrics import find_metric
from unweave.models.config import Config
from unweave.models.model import load
from unweave.study.datasets import Sources
from unweave.study.outcomes import RunOutcome, outcome_of, record, sentence
from unweave.study.run_folder import SEED, Wanted
from unweave.study.store import Store
from unweave.study.workers import Worker

__all__ = ["Scorer"]

SLOW = ("unweave.metrics.trees", "sklearn.linear_model")
"""What most studies' metrics import, which takes a second."""
LOOK_SECONDS = 1.0
"""How often to ask the ledger for trained runs where there were none."""


class _Job(NamedTuple):
    """A run that is being scored; alone, if the process that scored it and others died."""

    config: Config
    wanted: Sequence[Wanted]
    codes: Posteriors
    trouble: Sequence[str]
    alone: bool = False


class _Trouble(NamedTuple):
    """What a metric met that is no verdict on the model: it will be tried again."""

    said: str


class Scorer:
    """Scores the trained runs of a study in processes of their own.

    Args:
        store: The study.
        worker: Who claims the runs.
        sources: Its data.
        device: Where models encode.
        processes: How many processes; with 0 this one computes, and training waits for it.
    """

    def __init__(
        self, store: Store, worker: Worker, sources: Sources, device: torch.device, processes: int
    ) -> None:
        self.store, self.worker, self.sources = store, worker, sources
        self.device, self.processes = device, processes
        self.jobs: dict[Future[Any], _Job] = {}
        self.suspects: list[_Job] = []
        self.pool: ProcessPoolExecutor | None = None
        self.done = 0
        self.look_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def busy(self) -> bool:
        """Whether some run is being scored."""
        return bool(self.jobs or self.suspects)

    def tick(self) -> bool:
        """Take in what is done, and give every free process a run; whether anything happened."""
        moved = self._collect()
        if self.suspects:
            if not self.jobs:
                self._submit(self.suspects.pop(0)._replace(alone=True))
            return True
        # One more than there are processes, so that none waits for this one.
        while len(self.jobs) <= self.processes and time.monotonic() >= self.look_at:
            config = self._next()
            if config is None:
                self.look_at = time.monotonic() + LOOK_SECONDS
                break
            self._begin(config)
            moved = True
        return moved

    def wait(self, seconds: float) -> None:
        """Wait until something is done, but not for long."""
        if self.jobs:
            wait(self.jobs, seconds, "FIRST_COMPLETED")

    def _next(self) -> Config | None:
        """The next run to score, from the ledger."""
        having = [job.config.hash for job in self.jobs.values()]
        runs = self.store.ledger.claim_trained(self.worker, 1, having)
        return self.store.configs(runs)[0] if runs else None

    def _record(self, run: str, outcome: RunOutcome) -> None:
        """Take down what has become of a run, in the ledger."""
        record(self.store.ledger, {run: outcome})

    def _begin(self, config: Config) -> None:
        try:
            self.store.bring([config.hash])
            missing = self.store.look(config).missing
            if not missing:
                self._finish(config, [])
                return
            data = self.sources.near(config, self.device)
            model = load(self.store.runs / config.hash, self.device)
            codes = encode(model, data, SEED)
            # Those that compare images need the decoder, and other processes import no scripts.
            here = [w for w in missing if w.metric.of_images or module_of(w.name) == "__main__"]
            trouble = self._keep(config, here, _score(_names(here), codes))
            there = [w for w in missing if w not in here]
            spread = any(w.sampled or "logvars" in w.metric.takes for w in there)
            self._submit(_Job(config, there, codes.of(0, spread), trouble))
        except Exception as error:  # one run's trouble is its own
            self._fail(config, error)

    def _submit(self, job: _Job) -> None:
        names = _names(job.wanted)
        if not self.processes:
            self._take_in(job, _score(names, job.codes))
            return
        with _without_main():
            try:
                future = self._opened().submit(_score, names, job.codes)
            except BrokenProcessPool:
                self._bury()
                future = self._opened().submit(_score, names, job.codes)
        self.jobs[future] = job

    def _opened(self) -> ProcessPoolExecutor:
        if self.pool is None:
            self.pool = ProcessPoolExecutor(self.processes, _context(), _prepare)
        return self.pool

    def _collect(self) -> bool:
        finished = [future for future in self.jobs if future.done()]
        for future in finished:
            job = self.jobs.pop(future)
            try:
                self._take_in(job, future.result())
            except BrokenProcessPool as error:
                self._bury()
                self._suspect(job, error)
            except Exception as error:  # as above
                self._fail(job.config, error)
        return bool(finished)

    def _bury(self) -> None:
        """End what is left of a pool in which a process died.

        Python ends the others, but may overlook one that starts just then, and wait for it.
        """
        if self.pool is not None and self.pool._broken:
            for process in list((self.pool._processes or {}).values()):
                process.kill()
            self.pool = None

    def _suspect(self, job: _Job, error: BrokenProcessPool) -> None:
        """A process died, for its memory perhaps, and all in the pool with it: who was it?"""
        if job.alone:
            self._fail(job.config, UnweaveError(f"the process that scored it died ({error})"))
        else:
            self.suspects.append(job)

    def _take_in(self, job: _Job, said: "Sequence[Outcome | _Trouble]") -> None:
        trouble = self._keep(job.config, job.wanted, said)
        self._finish(job.config, [*job.trouble, *trouble])

    def _keep(
        self, config: Config, wanted: Sequence[Wanted], said: "Sequence[Outcome | _Trouble]"
    ) -> list[str]:
        """Keep what metrics said of a run; what they could not say, in sentences."""
        both = list(zip(wanted, said, strict=True))
        found = {w.key(config): one for w, one in both if isinstance(one, Outcome)}
        if found:
            keep(self.store.runs / config.hash, found)
            self.store.hand_in([config.hash])
        return [f"no {w.metric.name}: {one.said}" for w, one in both if isinstance(one, _Trouble)]

    def _finish(self, config: Config, trouble: Sequence[str]) -> None:
        outcome = outcome_of(self.store, config, trouble)
        self._record(config.hash, outcome)
        self.done += outcome.state != "failed"

    def _fail(self, config: Config, error: Exception) -> None:
        self._record(config.hash, RunOutcome("failed", sentence(error)))

    def _stop(self) -> None:
        """End the processes: at once if they are at work, since nobody waits for the results."""
        if self.pool is None:
            return
        at_work = list((self.pool._processes or {}).values()) if self.jobs else []
        self.pool.shutdown(wait=not self.jobs, cancel_futures=True)
        for process in at_work:
            process.terminate()


def _context() -> multiprocessing.context.BaseContext:
    """How processes start: as forks of one that has imported what all of them need.

    That takes seconds and hundreds of megabytes, which they share. Elsewhere than on Linux forks
    are not there or not safe, and each process imports it.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *SLOW])
    return context


def _prepare() -> None:
    """A process for scoring leaves signals to its parent, keeps to one core, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _names(wanted: Sequence[Wanted]) -> list[tuple[str, bool]]:
    return [(one.name, one.sampled) for one in wanted]


def _score(names: Sequence[tuple[str, bool]], codes: Posteriors) -> "list[Outcome | _Trouble]":
    """What metrics of a study say of codes; those of users are imported by other processes."""
    said: list[Outcome | _Trouble] = []
    for name, sampled in names:
        if is_reference(name):
            allow(module_of(name))
        try:
            outcome = apply(find_metric(name), codes, 0, sampled)
            said.append(_Trouble(outcome.error) if outcome.passing else outcome)
        except Exception as error:  # one metric's trouble is its own
            said.append(_Trouble(sentence(error)))
    return said


@contextmanager
def _without_main() -> Iterator[None]:
    """Processes that are started here do not import the user's script, which would run again."""
    main = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {n: main.pop(n) for n in ("__spec__", "__file__") if n in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        del main["__spec__"]
        main.update(hidden)
