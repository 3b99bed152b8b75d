"""Running a study in this process: claim runs, train them in fleets and score them.

Any number of processes can work on a study at the same time, and each can be killed at any time.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.models.config import Config
from unweave.nets.device import chosen_device
from unweave.progress import say
from unweave.study.checking import tidy
from unweave.study.ledger import one_line
from unweave.study.planning import device_name
from unweave.study.results import Results, TableWriter
from unweave.study.scoring import Scorer
from unweave.study.store import Store
from unweave.study.training import (
    Claims,
    DiskFullError,
    RunOptions,
    fail,
    is_out_of_memory,
    train_fleet,
)
from unweave.study.workers import Worker
from unweave.text import counted

__all__ = ["HEARTBEAT_SECONDS", "LocalRunner", "finish"]

HEARTBEAT_SECONDS = 10.0
WAIT_SECONDS = 0.5


class LocalRunner:
    """Trains and scores the runs of a prepared study in this process."""

    def __init__(self, store: Store, options: RunOptions) -> None:
        self.store, self.ledger, self.options = store, store.ledger, options
        self.device = chosen_device(options.device)
        self.worker = Worker.here()
        cores = os.cpu_count() or 1
        # Training on a GPU leaves the cores to scoring; training on the CPU takes half of them.
        free = cores - 1 if self.device.type == "cuda" else cores // 2
        processes = max(1, free) if options.scorers is None else options.scorers
        self.scorer = Scorer(store, self.device, processes, self.next_to_score, self.ledger.record)
        self.claims = Claims(store, self.worker, self.device, options.fleet_size)
        self.table = TableWriter(store)
        self.doing = self.last_message = ""

    def run(self) -> None:
        """Work until all runs are done, including runs that other processes may release."""
        try:
            with self._heartbeats(), self.scorer:
                while self._advance():
                    pass
        finally:
            # After the last heartbeat, which would add this worker again.
            self.ledger.release(self.worker)
        finish(self.store)

    def _advance(self) -> bool:
        """Train a fleet or wait for scores; return whether any work is left."""
        self.scorer.tick()
        self.table.write_if_due()
        fleet = self.claims.next_fleet()
        if fleet:
            self._train(fleet)
            self.scorer.look_now()
            return True
        self.doing = "scoring"
        if self.scorer.busy:
            self.scorer.wait(WAIT_SECONDS)
            return True
        if not self.ledger.busy():
            return False
        # Runs of other workers may become free.
        time.sleep(WAIT_SECONDS)
        return True

    def _train(self, configs: list[Config]) -> None:
        """Train a fleet and record its outcome; a failure does not affect other fleets."""
        runs = [config.hash for config in configs]
        self.ledger.mark(runs, "training")
        try:
            self._announce(configs)
            seconds = train_fleet(
                self.store, configs, self.device, self.options, self._on_progress
            )
        except (InterruptedTrainingError, DiskFullError):
            raise
        except Exception as error:  # recorded for its runs; the study continues
            fail(self.store, runs, error, self.device)
            if is_out_of_memory(error) and len(runs) > 1:
                # Another program has since taken memory: retry with half as many models.
                self.claims.sizes[self.claims.key(configs[0])] = len(runs) // 2
                self.ledger.reopen(runs, "planned")
            return
        if seconds is not None:
            for kind in {config.kind for config in configs}:
                self.ledger.record_speed(kind, device_name(self.device), seconds)
        self.ledger.record({config.hash: self.store.outcome(config) for config in configs})

    def _announce(self, configs: Sequence[Config]) -> None:
        if self.options.progress:
            counts = self.ledger.counts()
            done = sum(counts[state] for state in ("trained", "scored", "diverged", "failed"))
            methods = ", ".join(dict.fromkeys(config.method.name for config in configs))
            say(
                f"training {counted(len(configs), f'{methods} model')} on "
                f"{self.store.source(configs[0]).name} ({done:,} of {sum(counts.values()):,} runs "
                "of the study done)"
            )

    def next_to_score(self, scoring: Sequence[str]) -> Config | None:
        """Claim a trained run to score, given the runs that this process is scoring now."""
        runs = self.ledger.claim_trained(self.worker, 1, scoring)
        return self.store.configs(runs)[0] if runs else None

    def _on_progress(self, doing: str) -> None:
        self.doing = doing
        try:
            self.scorer.tick()
            self.table.write_if_due()
            self.store.upload_checkpoints()
        except Exception as error:  # must not interrupt training
            message = one_line(error)
            if message != self.last_message:
                say(message)
                self.last_message = message

    @contextmanager
    def _heartbeats(self) -> Iterator[None]:
        """Send a heartbeat for this process every few seconds."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(HEARTBEAT_SECONDS):
                # A temporary error, such as a full disk, must not stop the heartbeats.
                with suppress(UnweaveError):
                    self.ledger.heartbeat(self.worker, self.doing)

        self.ledger.heartbeat(self.worker)
        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def finish(store: Store) -> None:
    """Remove temporary files if no other process is active, and write the final table."""
    if not store.ledger.workers():
        tidy(store)
    Results(store).write()
    store.upload_ledger()
