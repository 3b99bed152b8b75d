"""The file of a ledger: its tables, how it is opened and changed, and how damage is noticed.

A ledger may come from someone else, or from a failing disk, so it is verified when it is opened:
SQLite's own integrity check, exactly the tables that are written here (no views, no triggers), and
a checksum of every row. Ledgers from before there were checksums open without that last test, and
get their checksums with the first change.
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
from unweave.io.plain_data import MOST_BYTES
from unweave.io.writing import allowed, temporary_folder, write_errors

__all__ = ["STATES", "DamagedLedgerError", "LedgerFile", "beside"]

STATES = ("planned", "claimed", "training", "trained", "scored", "diverged", "failed")
PATIENCE = 60.0
"""Seconds to wait for another process that is writing."""
APPLICATION, FORMAT = 0x756E7776, 1
"""SQLite's `application_id` ("unwv") and `user_version` of ledgers; both 0 without checksums."""
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
"""What tells damage: a checksum of each run's row, and how many rows there are."""
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
"""Rows with values that are never written; SQLite itself takes any type in any column."""
HEADER = b"SQLite format 3\0"
WITH_JOURNAL = b"\1\1"
"""In a file's header: changes go through a journal, as ours do, and not through a log (WAL)."""
SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""How a journal ends that names another file, which SQLite might delete; ours never do."""


class DamagedLedgerError(UnweaveError):
    """A ledger that was not written like this.

    Args:
        path: Its file.
        why: What is wrong with it.
    """

    def __init__(self, path: Path, why: object) -> None:
        self.why = " ".join(str(why).split())
        super().__init__(
            f"the ledger {path} cannot be used: {self.why}; "
            f"`unweave study check {path.parent} --repair` rebuilds it from the run folders"
        )


class LedgerFile:
    """A file of SQLite with the tables of a ledger.

    Args:
        path: The file.
        create: Whether to make it if it is missing.
    """

    def __init__(self, path: Path, create: bool = True) -> None:
        self.path = path
        if not os.path.lexists(path):
            if not create and (path.parent / "study.json").exists():
                raise DamagedLedgerError(path, "the file is missing")
            if not create:
                raise UnweaveError(f"there is no study in {path.parent}: {path.name} is missing")
            self._make()
        self._verify()

    def _make(self) -> None:
        """Make an empty ledger, which appears whole, or not at all if another process has."""
        with write_errors(self.path), temporary_folder(self.path) as folder, self._errors():
            made = folder / self.path.name
            with closing(sqlite3.connect(made, isolation_level=None)) as connection:
                connection.execute("BEGIN")
                for statement in TABLES:
                    connection.execute(statement)
                _add_checksums(connection)
                connection.execute("COMMIT")
            # SQLite lets only the owner write, whatever the user's mask says.
            made.chmod(allowed(0o666))
            if not os.path.lexists(self.path):
                # What a killed process was writing to a ledger that is gone.
                beside(self.path)[0].unlink(missing_ok=True)
            try:
                os.link(made, self.path)
            except FileExistsError:
                return
            except OSError:  # a file system without links
                if not self.path.exists():
                    made.rename(self.path)

    def _verify(self) -> None:
        """An error where the file is not as it was written."""
        try:
            for path in (self.path, *beside(self.path)):
                # A pipe would never end, and behind a link lies somebody else's file.
                if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
                    raise DamagedLedgerError(self.path, f"{path.name} is not a regular file")
            with self.path.open("rb") as file:
                head = file.read(20)
        except OSError as error:
            raise UnweaveError(
                f"the ledger {self.path} cannot be read: {error.strerror or error}"
            ) from error
        if not head.startswith(HEADER):
            raise DamagedLedgerError(self.path, "it is not a file of SQLite")
        if head[18:] != WITH_JOURNAL or self._names_a_file():
            raise DamagedLedgerError(self.path, "it was changed by another program")
        with self._open() as connection:
            # Undecodable text becomes surrogates, which no checksum takes.
            connection.text_factory = lambda text: text.decode(errors="surrogateescape")
            connection.execute("BEGIN")
            why = next(_damage(connection), None)
        if why:
            raise DamagedLedgerError(self.path, why)

    def _names_a_file(self) -> bool:
        """Whether there is a journal that names a file."""
        try:
            with beside(self.path)[0].open("rb") as file:
                file.seek(-len(SUPER_JOURNAL), os.SEEK_END)
                return file.read() == SUPER_JOURNAL
        except OSError:
            return False

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """One transaction that no other process can come between; it keeps checksums right."""
        with self._open() as connection:
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not _has_checksums(connection):
                    _add_checksums(connection)
                _keep_checksums(connection)
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
        place = f"{self.path.absolute().as_uri()}?mode=rw"
        with (
            self._errors(),
            closing(
                sqlite3.connect(place, timeout=PATIENCE, isolation_level=None, uri=True)
            ) as connection,
        ):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise UnweaveError(
                f"the ledger {self.path} cannot be used now ({error}); check the disk, and that "
                "you may write there"
            ) from error
        except sqlite3.DatabaseError as error:
            raise DamagedLedgerError(self.path, error) from error


def beside(path: Path) -> list[Path]:
    """Files that SQLite may keep beside a ledger: a journal of changes, a log and its index."""
    return [path.with_name(f"{path.name}-{end}") for end in ("journal", "wal", "shm")]


def _damage(connection: sqlite3.Connection) -> Iterator[str]:
    """What is wrong with the contents of a ledger, in a few words each, the worst first."""
    version = _value(connection, "PRAGMA user_version")
    marks = (_value(connection, "PRAGMA application_id"), version)
    if marks not in ((0, 0), (APPLICATION, FORMAT)):
        yield f"it has format {version}, and this version of unweave reads format {FORMAT}"
    if _schema(connection) != _expected_schema(bool(version)):
        yield "its tables are not those of a ledger"
    found = _value(connection, "PRAGMA integrity_check(1)")
    if found != "ok":
        yield found
    if any(connection.execute(query).fetchone() for query in WRONG_TYPES):
        yield "it holds values that no study writes"
    noted = "checksum" if version else "NULL"
    wrong, count = None, 0
    try:
        for *row, checksum in connection.execute(f"SELECT {COLUMNS}, {noted} FROM runs"):  # noqa: S608 - constants
            count += 1
            if row_checksum(*row) != checksum and version:
                wrong = row[0]
        for table in ("workers", "speeds"):
            for row in connection.execute(f"SELECT * FROM {table}"):  # noqa: S608 - as above
                row_checksum(*row)
    except UnicodeError:
        yield "it holds text that cannot be decoded"
    if wrong is not None:
        yield f"the checksum of run {wrong} is wrong"
    if version and connection.execute("SELECT runs FROM totals").fetchall() != [(count,)]:
        yield f"some of its runs are missing: {count:,} are left"


def row_checksum(*row: Any) -> str:
    """A checksum of a run's row, or of any other."""
    return hashlib.sha256("\0".join(map(str, row)).encode()).hexdigest()[:16]


def _has_checksums(connection: sqlite3.Connection) -> bool:
    return bool(_value(connection, "PRAGMA user_version"))


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Bring the tables of a ledger without checksums to today's format."""
    for statement in CHECKSUMS:
        connection.execute(statement)
    connection.create_function("row_checksum", -1, row_checksum, deterministic=True)
    connection.execute(f"UPDATE runs SET checksum = row_checksum({COLUMNS})")  # noqa: S608 - a constant
    connection.execute("INSERT INTO totals SELECT COUNT(*) FROM runs")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _keep_checksums(connection: sqlite3.Connection) -> None:
    """Have every row that this connection changes get its checksum."""
    connection.create_function("row_checksum", -1, row_checksum, deterministic=True)
    columns = ", ".join(f"new.{name}" for name in COLUMNS.split(", "))
    for event in ("INSERT", "UPDATE"):
        connection.execute(KEEP_CHECKSUMS.format(event=event, columns=columns))


def _schema(connection: sqlite3.Connection) -> set[tuple[Any, ...]]:
    """Everything that a database consists of, as it was made."""
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
