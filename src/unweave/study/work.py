"""Work on a study: claim runs, train them in fleets, score them meanwhile, until all is done.

Any number of processes may work on one study at once, and any of them may be killed at any moment.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import torch

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.models.config import Config
from unweave.nets.device import chosen_device
from unweave.progress import say
from unweave.study.claiming import Claims
from unweave.study.datasets import Sources
from unweave.study.estimate import device_name
from unweave.study.ledger import Ledger
from unweave.study.outcomes import fail, outcome_of, record, sentence
from unweave.study.repair import tidy
from unweave.study.results import Results, TableWriter
from unweave.study.scoring import Scorer
from unweave.study.store import Store
from unweave.study.training import NoRoomError, is_out_of_memory, train_fleet
from unweave.study.workers import Worker

__all__ = ["BEAT_SECONDS", "Work", "finish"]

BEAT_SECONDS = 10.0
WAIT_SECONDS = 0.5


class Work:
    """What one process does for a study.

    Args:
        store: The study.
        device: By default a GPU where there is one.
        progress: Whether to show how far it is.
        fleet_size: How many models to train at once; by default as many as fit.
        scorers: How many processes compute scores.
        checkpoint_every: Seconds between checkpoints.
    """

    def __init__(
        self,
        store: Store,
        *,
        device: str | torch.device | None = None,
        progress: bool = False,
        fleet_size: int | None = None,
        scorers: int | None = None,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.store, self.progress = store, progress
        self.device = chosen_device(device)
        self.checkpoint_every = checkpoint_every
        self.worker = Worker.here()
        self.sources = Sources(store)
        cores = os.cpu_count() or 1
        # A GPU leaves the cores to the scores; training on the cores takes half of them.
        free = cores - 1 if self.device.type == "cuda" else cores // 2
        self.scorer = Scorer(
            store,
            self.worker,
            self.sources,
            self.device,
            max(1, free) if scorers is None else scorers,
        )
        self.claims = Claims(store, self.worker, self.sources, self.device, fleet_size)
        self.table = TableWriter(store)
        self.doing = self.mentioned = ""

    @property
    def ledger(self) -> Ledger:
        """The study's ledger."""
        return self.store.ledger

    def go(self) -> None:
        """Work until nothing is left that this process could do, nor others may leave to it."""
        try:
            with self._beating(), self.scorer:
                while self._advance():
                    pass
        finally:
            # After the last beat, which would list this worker once more.
            self.ledger.release(self.worker)
        finish(self.store)

    def _advance(self) -> bool:
        """Train a fleet, or score; whether anything is left."""
        self.scorer.tick()
        self.table.write_if_due()
        fleet = self.claims.next_fleet()
        if fleet:
            self._train(fleet)
            return True
        self.doing = "scoring"
        if self.scorer.busy:
            self.scorer.wait(WAIT_SECONDS)
            return True
        if not self.ledger.busy():
            return False
        # What others hold may come free.
        time.sleep(WAIT_SECONDS)
        return True

    def _train(self, configs: list[Config]) -> None:
        """Train a fleet and record its outcome; other fleets do not suffer for this one."""
        runs, kind = [config.hash for config in configs], configs[0].fleet
        self.ledger.mark(runs, "training")
        try:
            self._announce(configs)
            seconds = train_fleet(
                self.store,
                self.sources,
                configs,
                self.device,
                progress=self.progress,
                checkpoint_every=self.checkpoint_every,
                meanwhile=self._meanwhile,
            )
        except (InterruptedTrainingError, NoRoomError):
            raise
        except Exception as error:  # the runs say so, the study goes on
            fail(self.store, runs, error, self.device)
            if is_out_of_memory(error) and len(runs) > 1:
                # Somebody else took memory meanwhile: try again with half as many.
                self.claims.sizes[kind] = len(runs) // 2
                self.ledger.reopen(runs, "planned")
            return
        if seconds is not None:
            self.ledger.note_speed(kind, device_name(self.device), seconds)
        record(self.ledger, {config.hash: outcome_of(self.store, config) for config in configs})

    def _announce(self, configs: Sequence[Config]) -> None:
        if self.progress:
            counts = self.ledger.counts()
            done = sum(counts[state] for state in ("trained", "scored", "diverged", "failed"))
            say(
                f"{configs[0].method.name} on {self.store.source(configs[0]).name}: "
                f"{len(configs)} models ({done:,} of {sum(counts.values()):,} runs done)"
            )

    def _meanwhile(self, doing: str) -> None:
        self.doing = doing
        try:
            self.scorer.tick()
            self.table.write_if_due()
            self.store.hand_in_checkpoints()
        except Exception as error:  # the fleet that trains does not suffer for this
            self._mention(sentence(error))

    def _mention(self, trouble: str) -> None:
        """Say something, but not over and over."""
        if trouble != self.mentioned:
            say(trouble)
            self.mentioned = trouble

    @contextmanager
    def _beating(self) -> Iterator[None]:
        """Say every few seconds that this process lives."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(BEAT_SECONDS):
                # A disk that is full for a moment is no reason to fall silent.
                with suppress(UnweaveError):
                    self.ledger.beat(self.worker, self.doing)

        self.ledger.beat(self.worker)
        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def finish(store: Store) -> None:
    """Leave a study as others should find it: tidy, if nobody else is at work, and its table."""
    if not store.ledger.workers():
        tidy(store)
    Results(store).write()
    store.hand_in_ledger()
