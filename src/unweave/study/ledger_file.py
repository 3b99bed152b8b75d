"""The file of a ledger: its tables, and how it is opened, read and changed."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unweave.data.cache import allowed
from unweave.errors import UnweaveError

__all__ = ["LedgerFile"]

PATIENCE = 60.0
"""Seconds to wait for another process that is writing."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, kind TEXT NOT NULL, config TEXT NOT NULL, state TEXT NOT NULL,
    worker TEXT, error TEXT, results TEXT, changed REAL NOT NULL,
    asked INTEGER NOT NULL DEFAULT 1, scored_for TEXT
);
CREATE INDEX IF NOT EXISTS by_state ON runs (asked, state, kind);
CREATE INDEX IF NOT EXISTS by_worker ON runs (worker) WHERE worker IS NOT NULL;
CREATE TABLE IF NOT EXISTS workers (
    worker TEXT PRIMARY KEY, host TEXT NOT NULL, process INTEGER NOT NULL, seen REAL NOT NULL,
    doing TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS speeds (
    kind TEXT NOT NULL, device TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (kind, device)
);
"""


class LedgerFile:
    """A file of SQLite with the tables of a ledger, made if it is not there.

    Args:
        path: The file.
        create: Whether to make it if need be.
    """

    def __init__(self, path: Path, create: bool = True) -> None:
        if not create and not path.exists():
            raise UnweaveError(f"there is no study in {path.parent}: {path.name} is missing")
        self.path = path
        fresh = not path.exists()
        with self._open() as connection:
            connection.executescript(SCHEMA)
        if fresh:
            # SQLite lets only the owner write, whatever the user's mask says.
            with suppress(OSError):
                path.chmod(allowed(0o666))

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """One transaction that no other process can come between."""
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                # On a full disk SQLite has already done so.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The file for as long as it is needed, and an error that says what to do."""
        try:
            connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            try:
                yield connection
            finally:
                connection.close()
        except sqlite3.OperationalError as error:
            raise UnweaveError(
                f"the ledger {self.path} cannot be used now ({error}); see to the disk, and that "
                "this user may write there"
            ) from error
        except sqlite3.DatabaseError as error:
            raise UnweaveError(
                f"the ledger {self.path} cannot be used ({error}); "
                f"`unweave study check --repair` makes it again from the runs"
            ) from error
