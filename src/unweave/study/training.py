"""Choose the runs of a study that form the next fleet, set its size, and train it."""

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field

import torch

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet.callbacks import Callbacks
from unweave.fleet.capacity import fleet_capacity, fleet_sizes
from unweave.fleet.continuation import continued
from unweave.fleet.train import train_runs
from unweave.models.config import Config
from unweave.models.networks import disk_bytes
from unweave.study.ledger import one_line
from unweave.study.planning import seconds_per_step, trains_mixed_fleets
from unweave.study.store import Store
from unweave.study.workers import Worker

__all__ = ["Claims", "DiskFullError", "RunOptions", "fail", "is_out_of_memory", "train_fleet"]

DONE = ("trained", "scored")
"""States of runs that can be first-stage models of second stages."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options for running a study; see `unweave.study.run`."""

    device: str | torch.device | None = None
    progress: bool = False
    fleet_size: int | None = None
    scorers: int | None = None
    checkpoint_every: float = 60.0
    callbacks: Callbacks = field(default_factory=Callbacks)


class Claims:
    """Claims runs for training in the ledger, one fleet at a time."""

    def __init__(
        self, store: Store, worker: Worker, device: torch.device, fleet_size: int | None = None
    ) -> None:
        self.store, self.worker = store, worker
        self.device, self.fleet_size = device, fleet_size
        self.mixed = trains_mixed_fleets(device)
        self.sizes: dict[str, int] = {}
        self.fleets: dict[str, str] = {}
        self.first_of: dict[str, str] = {}
        self.trained: set[str] = set()

    def next_fleet(self) -> list[Config]:
        """Claim the next fleet: an interrupted one, or one of those with the most work."""
        fleets = self._in_fleets(self._ready(self.store.ledger.open_runs()))
        if not fleets:
            return []
        free = {run for runs in fleets.values() for run in runs}
        for interrupted in self.store.interrupted():
            left = [run for run in interrupted if run in free]
            if left:
                # Fewer models if the whole fleet turned out not to fit.
                fleet = next(fleet for fleet, runs in fleets.items() if left[0] in runs)
                left = left[: self.sizes.get(fleet, len(left))]
                return self.store.configs(self._take(left))
        for fleet, runs in fleets.items():
            size = self._size(fleet, runs)
            if size:
                # Every fleet gets runs of all methods, so that fleets take about as long.
                count = self._num_fleets(runs, size, fleets)
                claimed = self._take(runs[::count])
                if claimed:
                    return self.store.configs(claimed)
        return []

    def key(self, config: Config) -> str:
        """Return the key of `sizes` for the fleets to which a run can belong."""
        return config.fleet if self.mixed else config.kind

    def _in_fleets(self, kinds: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """Group runs that can train together, those with the most work first."""
        fleets: dict[str, list[str]] = {}
        costs: dict[str, float] = {}
        for kind, runs in kinds.items():
            if kind not in self.fleets:
                self.fleets[kind] = self.key(self.store.configs(runs[:1])[0])
            fleet = self.fleets[kind]
            fleets.setdefault(fleet, []).extend(runs)
            costs[fleet] = costs.get(fleet, 0.0) + len(runs) * self._seconds(runs[0])
        return {fleet: fleets[fleet] for fleet in sorted(fleets, key=lambda one: -costs[one])}

    def _ready(self, kinds: dict[str, list[str]]) -> dict[str, list[str]]:
        """Return runs that can be trained now; fail those whose first-stage model has failed."""
        ready, states = {}, None
        for kind, runs in kinds.items():
            firsts = self._firsts(runs)
            if not firsts:
                ready[kind] = runs
                continue
            states = self.store.ledger.states() if states is None else states
            found = {first: self._first_stage(first, states) for first in set(firsts.values())}
            failed = [run for run in runs if found[firsts[run]] == "failed"]
            if failed:
                reason = "its first-stage model diverged or failed"
                self.store.ledger.mark(self._take(failed), "failed", reason)
            trained = [run for run in runs if found[firsts[run]] == "trained"]
            if trained:
                ready[kind] = trained
        return ready

    def _first_stage(self, first: str, states: Mapping[str, str]) -> str:
        """Whether a first-stage model is `trained`, `failed`, or still `pending`."""
        state = states.get(first, "failed")
        if state == "diverged":
            return "failed"
        if first in self.trained or self.store.has(first):
            self.trained.add(first)
            return "trained"
        if state in DONE:  # its folder was removed
            self.store.ledger.reopen([first], "planned")
        return "failed" if state == "failed" else "pending"

    def _firsts(self, runs: Sequence[str]) -> dict[str, str]:
        """The first-stage model of each second stage among some runs, by run."""
        new = [run for run in runs if run not in self.first_of]
        if new and self.store.configs(new[:1])[0].first is not None:
            known = [(config.hash, config.first) for config in self.store.configs(new)]
            self.first_of |= {run: first.hash for run, first in known if first is not None}
        return {run: self.first_of[run] for run in runs if run in self.first_of}

    def _num_fleets(self, runs: Sequence[str], size: int, fleets: Sized) -> int:
        """Number of fleets into which to divide some runs, so that every worker gets some."""
        workers = self._num_workers()
        if len(fleets) < workers:
            size = min(size, math.ceil(len(runs) * len(fleets) / workers))
        return len(fleet_sizes(len(runs), size))

    def _num_workers(self) -> int:
        """Number of workers that share the study."""
        return len(self.store.ledger.workers())

    def _seconds(self, run: str) -> float:
        config = self.store.configs([run])[0]
        try:
            shape = self.store.source(config).shape
        except UnweaveError:
            return 0.0  # the error is recorded when the run is trained
        return config.steps * seconds_per_step(config, shape, self.device, self.store.ledger)

    def _size(self, fleet: str, runs: Sequence[str]) -> int:
        """Number of these models that fit; 0 if they cannot be trained, which is recorded."""
        if fleet not in self.sizes:
            configs = self.store.configs(runs)
            try:
                data = self.store.data_of(configs[0])
                self.sizes[fleet] = self.fleet_size or fleet_capacity(configs, data, self.device)
            except Exception as error:  # recorded for its runs; the study continues
                fail(self.store, self._take(runs), error, self.device)
                return 0
        return self.sizes[fleet]

    def _take(self, runs: Sequence[str]) -> list[str]:
        return self.store.ledger.claim(self.worker, runs)


class DiskFullError(UnweaveError):
    """Too little disk space for the results of the next fleet."""


def train_fleet(
    store: Store,
    configs: Sequence[Config],
    device: torch.device,
    options: RunOptions,
    on_progress: Callable[[str], bool | None],
) -> float | None:
    """Train runs that can share a fleet, and save them without changing the ledger.

    Returns:
        Seconds per step of one model, or None if training did not start at step 0.
    """
    runs = [config.hash for config in configs]
    started = {run for old in store.interrupted() for run in old}
    start = time.monotonic()
    data = store.data_of(configs[0])
    _check_disk_space(store, configs, data.shape)
    store.download([*runs, *(config.first.hash for config in configs if config.first is not None)])
    store.download_checkpoint(runs)
    store.download_states(configs)
    resumed = any(run in started or store.has(run) for run in runs)
    from_start = not resumed and not continued(configs, store.runs)
    try:
        train_runs(
            configs,
            data,
            out=store.runs,
            device=device,
            progress=options.progress,
            checkpoint_every=options.checkpoint_every,
            fleet_size=len(configs),
            on_progress=on_progress,
            keep_optimiser=store.study.keep_optimiser,
            callbacks=options.callbacks,
        )
    except InterruptedTrainingError:
        store.upload_checkpoints()
        raise
    store.upload(runs)
    if not from_start or not configs[0].steps:
        return None
    return (time.monotonic() - start) / configs[0].steps / len(configs)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether training failed because the fleet did not fit on its device."""
    return any(isinstance(one, torch.cuda.OutOfMemoryError) for one in (error, error.__cause__))


def _check_disk_space(
    store: Store, configs: Sequence[Config], shape: tuple[int, int, int]
) -> None:
    """Raise an error if the results of a fleet would not fit on the disk."""
    keep = store.study.keep_optimiser
    need = sum(disk_bytes(config, shape, True, keep) for config in configs)
    free = shutil.disk_usage(store.folder).free
    if need > free:
        raise DiskFullError(
            f"the next fleet needs {need / 1e9:.2g} GB in {store.folder}, but only "
            f"{free / 1e9:.2g} GB are free; free some space and run the same command again",
            subject=store.folder,
            value=free,
        )


def fail(store: Store, runs: Sequence[str], error: Exception, device: torch.device) -> None:
    """Mark runs as failed with the reason, except those that were already saved."""
    saved = [run for run in runs if store.has(run)]
    store.ledger.record({config.hash: store.outcome(config) for config in store.configs(saved)})
    store.ledger.mark([run for run in runs if run not in saved], "failed", one_line(error))
    if device.type == "cuda":
        torch.cuda.empty_cache()
