"""Which fleet a worker trains next: what is ready, what takes longest, and how much of it fits."""

import math
from collections.abc import Mapping, Sequence, Sized

import torch

from unweave.errors import UnweaveError
from unweave.fleet.capacity import fits, shares
from unweave.models.config import Config
from unweave.study.datasets import Sources
from unweave.study.estimate import seconds_per_step
from unweave.study.outcomes import fail
from unweave.study.store import Store
from unweave.study.workers import Worker

__all__ = ["Claims"]

DONE = ("trained", "scored")
"""States of runs on which others can build."""


class Claims:
    """What a worker takes from the ledger, a fleet at a time.

    Args:
        store: The study.
        worker: Who takes it.
        sources: The study's data sets.
        device: Where fleets are trained.
        fleet_size: How many models to train at once; by default as many as fit.
    """

    def __init__(
        self,
        store: Store,
        worker: Worker,
        sources: Sources,
        device: torch.device,
        fleet_size: int | None = None,
    ) -> None:
        self.store, self.worker, self.sources = store, worker, sources
        self.device, self.fleet_size = device, fleet_size
        self.sizes: dict[str, int] = {}
        self.first_of: dict[str, str] = {}
        self.trained: set[str] = set()

    def next_fleet(self) -> list[Config]:
        """The next fleet: one that was interrupted, or else of what takes longest."""
        kinds = self._ready(self.store.ledger.open_runs())
        if not kinds:
            return []
        free = {run for runs in kinds.values() for run in runs}
        for interrupted in self.store.interrupted():
            left = [run for run in interrupted if run in free]
            if left:
                # As many as fit, if it has turned out that all of them do not.
                kind = next(kind for kind, runs in kinds.items() if left[0] in runs)
                left = left[: self.sizes.get(kind, len(left))]
                return self.store.configs(self._take(left))
        costs = {kind: len(runs) * self._seconds(runs[0]) for kind, runs in kinds.items()}
        for kind in sorted(kinds, key=lambda kind: -costs[kind]):
            runs = kinds[kind]
            size = self._size(kind, runs)
            if size:
                claimed = self._take(runs[: self._share(runs, size, kinds)])
                if claimed:
                    return self.store.configs(claimed)
        return []

    def _ready(self, kinds: dict[str, list[str]]) -> dict[str, list[str]]:
        """Without second stages whose first is not trained; where it never will be, they fail."""
        ready, states = {}, None
        for kind, runs in kinds.items():
            firsts = self._firsts(runs)
            if not firsts:
                ready[kind] = runs
                continue
            states = self.store.ledger.states() if states is None else states
            found = {first: self._first_stage(first, states) for first in set(firsts.values())}
            lost = [run for run in runs if found[firsts[run]] == "lost"]
            if lost:
                reason = UnweaveError("the model that it builds on has diverged or failed")
                fail(self.store, self._take(lost), reason, self.device)
            trained = [run for run in runs if found[firsts[run]] == "trained"]
            if trained:
                ready[kind] = trained
        return ready

    def _first_stage(self, first: str, states: Mapping[str, str]) -> str:
        """Whether a model to build on is `trained`, `lost`, or still `pending`."""
        state = states.get(first, "failed")
        if state == "diverged":
            return "lost"
        if first in self.trained or self.store.has(first):
            self.trained.add(first)
            return "trained"
        if state in DONE:  # somebody has removed it
            self.store.ledger.reopen([first], "planned")
        return "lost" if state == "failed" else "pending"

    def _firsts(self, runs: Sequence[str]) -> dict[str, str]:
        """The runs that second stages build on, by theirs; nothing for first stages."""
        new = [run for run in runs if run not in self.first_of]
        if new and self.store.configs(new[:1])[0].first is not None:
            known = [(config.hash, config.first) for config in self.store.configs(new)]
            self.first_of |= {run: first.hash for run, first in known if first is not None}
        return {run: self.first_of[run] for run in runs if run in self.first_of}

    def _share(self, runs: Sequence[str], size: int, kinds: Sized) -> int:
        """How many runs to take: as even fleets as fit, and enough left for other workers."""
        workers = self._num_workers()
        if len(kinds) < workers:
            size = min(size, math.ceil(len(runs) * len(kinds) / workers))
        return shares(len(runs), size)[0]

    def _num_workers(self) -> int:
        """How many workers share the study."""
        return len(self.store.ledger.workers())

    def _seconds(self, run: str) -> float:
        config = self.store.configs([run])[0]
        try:
            shape = self.store.source(config).shape
        except UnweaveError:
            return 0.0  # it will fail, and say why, when its turn comes
        return config.steps * seconds_per_step(config, shape, self.device, self.store.ledger)

    def _size(self, kind: str, runs: Sequence[str]) -> int:
        """How many models of a kind fit; 0 where it cannot be trained, which its runs then say."""
        if kind not in self.sizes:
            configs = self.store.configs(runs)
            try:
                data = self.sources.open(configs[0])
                self.sizes[kind] = self.fleet_size or fits(configs, data, self.device)
            except Exception as error:  # the runs say so, the study goes on
                fail(self.store, self._take(runs), error, self.device)
                return 0
        return self.sizes[kind]

    def _take(self, runs: Sequence[str]) -> list[str]:
        return self.store.ledger.claim(self.worker, runs)
