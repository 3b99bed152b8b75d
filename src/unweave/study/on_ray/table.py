"""The table of a study while workers score, written beside all else."""

import threading
import time

from unweave.study.results import Results
from unweave.study.store import Store
from unweave.study.work import TABLE_SHARE

__all__ = ["TableWriter"]

TABLE_SECONDS = 2.0


class TableWriter:
    """Writes the table of a study in a thread of its own.

    Args:
        store: The study.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.due = 0.0
        self.scored, self.writing = 0, threading.Thread()

    def finish(self) -> None:
        """Wait for what is being written."""
        if self.writing.is_alive():
            self.writing.join()

    def write_if_due(self) -> None:
        """Bring the table up to date, as often as that costs little."""
        if time.monotonic() < self.due:
            return
        scored = self.store.ledger.counts()["scored"]
        self.due = time.monotonic() + TABLE_SECONDS
        if scored > self.scored and not self.writing.is_alive():
            self.scored = scored
            # Beside all else: that of a million runs takes longer than workers may be silent.
            self.writing = threading.Thread(target=self._write_now)
            self.writing.start()

    def _write_now(self) -> None:
        start = time.monotonic()
        Results(self.store).write()
        self.store.hand_in_ledger()
        end = time.monotonic()
        self.due = end + max(TABLE_SECONDS, (end - start) / TABLE_SHARE)
