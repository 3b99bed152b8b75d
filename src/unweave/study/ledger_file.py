"""The SQLite file of a ledger: its tables, transactions, and detection of damage.

A ledger may come from someone else or from a failing disk, so it is verified when it is opened:
SQLite's own integrity check, exactly the expected tables (no views, no triggers), and a checksum
of every row. Ledgers from older versions have no checksums; they are added with the first change.
"""

import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from unweave.errors import UnweaveError
from unweave.io.plain_data import MAX_BYTES
from unweave.io.writing import allowed, temporary_folder, write_errors

__all__ = ["STATES", "DamagedLedgerError", "LedgerFile", "journal_files"]

STATES = ("planned", "claimed", "training", "trained", "scored", "diverged", "failed")
LOCK_TIMEOUT = 60.0
"""Seconds to wait while another process is writing."""
APPLICATION, FORMAT = 0x756E7776, 1
"""SQLite's `application_id` ("unwv") and `user_version` of ledgers; both are 0 in old ledgers
without checksums."""
TABLES = (
    """CREATE TABLE runs (
    run TEXT PRIMARY KEY, kind TEXT NOT NULL, config TEXT NOT NULL, state TEXT NOT NULL,
    worker TEXT, error TEXT, results TEXT, changed REAL NOT NULL,
    asked INTEGER NOT NULL DEFAULT 1, scored_for TEXT
)""",
    "CREATE INDEX by_state ON runs (asked, state, kind)",
    "CREATE INDEX by_worker ON runs (worker) WHERE worker IS NOT NULL",
    """CREATE TABLE workers (
    worker TEXT PRIMARY KEY, host TEXT NOT NULL, process INTEGER NOT NULL, seen REAL NOT NULL,
    doing TEXT NOT NULL DEFAULT ''
)""",
    """CREATE TABLE speeds (
    kind TEXT NOT NULL, device TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (kind, device)
)""",
)
CHECKSUMS = (
    "ALTER TABLE runs ADD COLUMN checksum TEXT",
    "CREATE TABLE totals (runs INTEGER NOT NULL)",
)
"""Schema changes that add damage detection: a checksum per run and the number of runs."""
COLUMNS = "run, kind, config, state, worker, error, results, changed, asked, scored_for"
KEEP_CHECKSUMS = """CREATE TEMP TRIGGER after_{event} AFTER {event} ON main.runs BEGIN
    UPDATE runs SET checksum = row_checksum({columns}) WHERE rowid = new.rowid;
END"""
WRONG_TYPES = (
    f"""SELECT 1 FROM runs WHERE state NOT IN ({", ".join(map(repr, STATES))})
    OR asked NOT IN (0, 1) OR typeof(changed) != 'real'
    OR typeof(run) != 'text' OR typeof(kind) != 'text'
    OR typeof(config) != 'text' OR typeof(state) != 'text'
    OR typeof(worker) NOT IN ('text', 'null') OR typeof(error) NOT IN ('text', 'null')
    OR typeof(results) NOT IN ('text', 'null') OR typeof(scored_for) NOT IN ('text', 'null')""",  # noqa: S608 - constants
    """SELECT 1 FROM workers WHERE typeof(worker) != 'text' OR typeof(host) != 'text'
    OR typeof(process) != 'integer' OR typeof(seen) != 'real' OR typeof(doing) != 'text'""",
    """SELECT 1 FROM speeds WHERE typeof(kind) != 'text' OR typeof(device) != 'text'
    OR typeof(seconds) != 'real' OR NOT seconds BETWEEN 0 AND 1e9""",
)
"""Queries for rows with invalid values; SQLite itself accepts any type in any column."""
HEADER = b"SQLite format 3\0"
WITH_JOURNAL = b"\1\1"
"""Header bytes of a database that uses a rollback journal, as ledgers do, rather than a WAL."""
SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""Last bytes of a journal that names another file, which SQLite might delete; never used here."""


class DamagedLedgerError(UnweaveError):
    """A ledger whose file is missing, damaged or was changed by another program.

    Args:
        path: The file.
        why: The problem.
    """

    def __init__(self, path: Path, why: object) -> None:
        self.why = " ".join(str(why).split())
        super().__init__(
            f"the ledger {path} cannot be used: {self.why}; "
            f"`unweave study check {path.parent} --repair` rebuilds it from the run folders",
            subject=path,
            value=self.why,
        )


class LedgerFile:
    """A SQLite file with the tables of a ledger.

    Args:
        path: The file.
        create: Whether to create the file if it is missing.
    """

    def __init__(self, path: Path, create: bool = True) -> None:
        self.path = path
        if not os.path.lexists(path):
            if not create and (path.parent / "study.json").exists():
                raise DamagedLedgerError(path, "the file is missing")
            if not create:
                raise UnweaveError(
                    f"there is no study in {path.parent}: {path.name} is missing; check the path",
                    subject=path,
                )
            self._make()
        self._verify()

    def _make(self) -> None:
        """Create an empty ledger atomically, unless another process has created one."""
        with write_errors(self.path), temporary_folder(self.path) as folder, self._errors():
            made = folder / self.path.name
            with closing(sqlite3.connect(made, isolation_level=None)) as connection:
                connection.execute("BEGIN")
                for statement in TABLES:
                    connection.execute(statement)
                _add_checksums(connection)
                connection.execute("COMMIT")
            # SQLite makes the file writable only for its owner, whatever the umask.
            made.chmod(allowed(0o666))
            if not os.path.lexists(self.path):
                # The journal of a ledger that was deleted must not be applied to the new one.
                journal_files(self.path)[0].unlink(missing_ok=True)
            try:
                os.link(made, self.path)
            except FileExistsError:
                return
            except OSError:  # the file system does not support hard links
                if not self.path.exists():
                    made.rename(self.path)

    def _verify(self) -> None:
        """Raise an error if the file is damaged."""
        try:
            for path in (self.path, *journal_files(self.path)):
                # Reading a pipe would block, and a link may point to any other file.
                if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
                    raise DamagedLedgerError(self.path, f"{path.name} is not a regular file")
            with self.path.open("rb") as file:
                head = file.read(20)
        except OSError as error:
            raise UnweaveError(
                f"cannot read the ledger {self.path}: {error.strerror or error}"
            ) from error
        if not head.startswith(HEADER):
            raise DamagedLedgerError(self.path, "it is not a SQLite file")
        if head[18:] != WITH_JOURNAL or self._names_a_file():
            raise DamagedLedgerError(self.path, "it was changed by another program")
        with self._open() as connection:
            # Undecodable text becomes surrogates, which the checksum function rejects.
            connection.text_factory = lambda text: text.decode(errors="surrogateescape")
            connection.execute("BEGIN")
            why = next(_damage(connection), None)
        if why:
            raise DamagedLedgerError(self.path, why)

    def _names_a_file(self) -> bool:
        """Whether there is a journal that names another file."""
        try:
            with journal_files(self.path)[0].open("rb") as file:
                file.seek(-len(SUPER_JOURNAL), os.SEEK_END)
                return file.read() == SUPER_JOURNAL
        except OSError:
            return False

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """Open an exclusive write transaction that keeps checksums up to date."""
        with self._open() as connection:
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not _value(connection, "PRAGMA user_version"):
                    _add_checksums(connection)
                _keep_checksums(connection)
                yield connection
            except BaseException:
                # On a full disk, SQLite has already rolled back.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open a connection, and translate SQLite's errors."""
        uri = f"{self.path.absolute().as_uri()}?mode=rw"
        with (
            self._errors(),
            closing(
                sqlite3.connect(uri, timeout=LOCK_TIMEOUT, isolation_level=None, uri=True)
            ) as connection,
        ):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise UnweaveError(
                f"cannot access the ledger {self.path} ({error}); check the disk and your write "
                "permission"
            ) from error
        except sqlite3.DatabaseError as error:
            raise DamagedLedgerError(self.path, error) from error


def journal_files(path: Path) -> list[Path]:
    """Files that SQLite may create next to a ledger: rollback journal, WAL and shared memory."""
    return [path.with_name(f"{path.name}-{end}") for end in ("journal", "wal", "shm")]


def _damage(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield short descriptions of damage to the contents of a ledger, worst first."""
    version = _value(connection, "PRAGMA user_version")
    marks = (_value(connection, "PRAGMA application_id"), version)
    if marks not in ((0, 0), (APPLICATION, FORMAT)):
        yield f"it has format {version}, but this version of unweave reads format {FORMAT}"
    if _schema(connection) != _expected_schema(bool(version)):
        yield "it does not have the tables of a ledger"
    found = _value(connection, "PRAGMA integrity_check(1)")
    if found != "ok":
        yield found
    if any(connection.execute(query).fetchone() for query in WRONG_TYPES):
        yield "it contains invalid values"
    stored = "checksum" if version else "NULL"
    wrong, count = None, 0
    try:
        for *row, checksum in connection.execute(f"SELECT {COLUMNS}, {stored} FROM runs"):  # noqa: S608 - constants
            count += 1
            if row_checksum(*row) != checksum and version:
                wrong = row[0]
        for table in ("workers", "speeds"):
            for row in connection.execute(f"SELECT * FROM {table}"):  # noqa: S608 - as above
                row_checksum(*row)
    except UnicodeError:
        yield "it contains text that is not valid UTF-8"
    if wrong is not None:
        yield f"the checksum of run {wrong} is wrong"
    if version and connection.execute("SELECT runs FROM totals").fetchall() != [(count,)]:
        yield f"some of its runs are missing ({count:,} are left)"


def row_checksum(*row: Any) -> str:
    """Checksum of a database row."""
    return hashlib.sha256("\0".join(map(str, row)).encode()).hexdigest()[:16]


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Upgrade a ledger without checksums to the current format."""
    for statement in CHECKSUMS:
        connection.execute(statement)
    connection.create_function("row_checksum", -1, row_checksum, deterministic=True)
    connection.execute(f"UPDATE runs SET checksum = row_checksum({COLUMNS})")  # noqa: S608 - a constant
    connection.execute("INSERT INTO totals SELECT COUNT(*) FROM runs")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _keep_checksums(connection: sqlite3.Connection) -> None:
    """Add triggers that update the checksum of every row changed by this connection."""
    connection.create_function("row_checksum", -1, row_checksum, deterministic=True)
    columns = ", ".join(f"new.{name}" for name in COLUMNS.split(", "))
    for event in ("INSERT", "UPDATE"):
        connection.execute(KEEP_CHECKSUMS.format(event=event, columns=columns))


def _schema(connection: sqlite3.Connection) -> set[tuple[Any, ...]]:
    """All tables, indexes, views and triggers of a database with their SQL."""
    rows: Sequence[tuple[Any, ...]] = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema"
    ).fetchall()
    return set(rows)


@cache
def _expected_schema(checksums: bool) -> set[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in (*TABLES, *(CHECKSUMS if checksums else ())):
            connection.execute(statement)
        return _schema(connection)


def _value(connection: sqlite3.Connection, query: str) -> Any:
    (value,) = connection.execute(query).fetchone()
    return value
