"""Work on a study: claim runs, train them in fleets, score them meanwhile, until all is done.

Any number of processes may work on one study at once, and any of them may be killed at any moment.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import torch

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet.train import train_runs
from unweave.models.config import Config
from unweave.models.size import disk_bytes
from unweave.nets.device import chosen_device
from unweave.progress import say
from unweave.study.claiming import Claims
from unweave.study.datasets import Sources
from unweave.study.estimate import device_name
from unweave.study.ledger import Ledger
from unweave.study.outcomes import fail, note
from unweave.study.repair import tidy
from unweave.study.results import Results
from unweave.study.scoring import Scorer, sentence
from unweave.study.store import Store
from unweave.study.workers import Worker

__all__ = ["Work"]

BEAT_SECONDS = 10.0
WAIT_SECONDS = 0.5
TABLE_SHARE = 0.02
"""How much of the time writing the table may take."""


class NoRoomError(UnweaveError):
    """A disk on which the results of the next fleet do not fit."""


class Work:
    """What one process does for a study.

    Args:
        store: The study.
        device: By default a GPU where there is one.
        progress: Whether to show how far it is.
        fleet_size: How many models to train at once; by default as many as fit.
        scorers: How many processes compute scores.
        checkpoint_every: Seconds between checkpoints.
        worker: Under which name it takes runs; by default that of this process.
        stopping: Says whether to stop, with a checkpoint, as on Ctrl-C.
        table: Whether to keep the table up to date; not where some other process does.
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
        worker: Worker | None = None,
        stopping: Callable[[], bool] = lambda: False,
        table: bool = True,
    ) -> None:
        self.stopping, self.table = stopping, table
        self.store, self.progress = store, progress
        self.device = chosen_device(device)
        self.checkpoint_every = checkpoint_every
        self.worker = worker or Worker.here()
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
        self.doing = self.mentioned = ""
        self.table_due = 0.0

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
        if self.table:
            if not self.ledger.workers():
                tidy(self.store)
            Results(self.store).write()
            self.store.hand_in_ledger()

    def _advance(self) -> bool:
        """Train a fleet, or score; whether anything is left."""
        if self.stopping():
            raise InterruptedTrainingError("stopped; run the same again to go on from there")
        self.scorer.tick()
        self._write_table()
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
        """Train a fleet and say what became of it; other fleets do not suffer for this one."""
        runs, kind = [config.hash for config in configs], configs[0].fleet
        self.ledger.mark(runs, "training")
        begun = {run for old in self.store.interrupted() for run in old}
        afresh = not any(run in begun or self.store.has(run) for run in runs)
        start = time.monotonic()
        try:
            data = self.sources.open(configs[0])
            self._demand_room(configs, data.shape)
            self.store.bring([*runs, *self.claims.firsts(runs).values()])
            self.store.bring_checkpoint(runs)
            self._announce(configs)
            train_runs(
                configs,
                data,
                out=self.store.runs,
                device=self.device,
                progress=self.progress,
                checkpoint_every=self.checkpoint_every,
                fleet_size=len(configs),
                meanwhile=self._meanwhile,
            )
            self.store.hand_in(runs)
        except InterruptedTrainingError:
            self.store.hand_in_checkpoints()
            raise
        except NoRoomError:
            raise
        except torch.cuda.OutOfMemoryError as error:
            # Somebody else took memory meanwhile: try again with half as many.
            fail(self.store, runs, error, self.device)
            if len(runs) > 1:
                self.claims.sizes[kind] = len(runs) // 2
                self.ledger.reopen(runs, "planned")
            return
        except Exception as error:  # the runs say so, the study goes on
            fail(self.store, runs, error, self.device)
            return
        if afresh and configs[0].steps:
            each = (time.monotonic() - start) / configs[0].steps / len(configs)
            self.ledger.note_speed(kind, device_name(self.device), each)
        note(self.store, configs)

    def _announce(self, configs: Sequence[Config]) -> None:
        if self.progress:
            counts = self.ledger.counts()
            done = sum(counts[state] for state in ("trained", "scored", "diverged", "failed"))
            say(
                f"{configs[0].method.name} on {self.store.source(configs[0]).name}: "
                f"{len(configs)} models ({done:,} of {sum(counts.values()):,} runs done)"
            )

    def _demand_room(self, configs: Sequence[Config], shape: tuple[int, int, int]) -> None:
        """Stop before a fleet whose results would not fit on the disk."""
        need = sum(disk_bytes(config, shape, in_training=True) for config in configs)
        free = shutil.disk_usage(self.store.folder).free
        if need > free:
            raise NoRoomError(
                f"the next fleet needs {need / 1e9:.2g} GB in {self.store.folder}, where "
                f"{free / 1e9:.2g} GB are free; make room and run the same again"
            )

    def _meanwhile(self, doing: str) -> bool:
        self.doing = doing
        try:
            self.scorer.tick()
            self._write_table()
            self.store.hand_in_checkpoints()
        except Exception as error:  # the fleet that trains does not suffer for this
            self._mention(sentence(error))
        return self.stopping()

    def _mention(self, trouble: str) -> None:
        """Say something, but not over and over."""
        if trouble != self.mentioned:
            say(trouble)
            self.mentioned = trouble

    def _write_table(self) -> None:
        """Bring the table up to date, as often as that costs little."""
        now = time.monotonic()
        if self.table and now >= self.table_due and self.scorer.done:
            Results(self.store).write()
            took = time.monotonic() - now
            self.table_due = time.monotonic() + max(2.0, took / TABLE_SHARE)

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
