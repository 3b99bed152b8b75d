"""The ledger of a study: its runs, their states and results, and the workers that hold them.

The ledger is one SQLite file next to the run folders. Every change is one transaction, so a
process can be killed at any time, and several processes can share a study without training a run
twice. The folders are authoritative: the ledger can be deleted and rebuilt from them. It is
verified when it is opened (`ledger_file.py`).

A worker holds its claims only while it is alive. It sends a heartbeat every few seconds; claims of
a worker without a recent heartbeat, or whose process on this machine has ended, are free again. A
trained run that a worker holds is being scored.
"""

import json
import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unweave.errors import UnweaveError
from unweave.io.plain_data import parse_json
from unweave.study.ledger_file import STATES, DamagedLedgerError, LedgerFile
from unweave.study.workers import (
    Worker,
    dead_holders,
    dead_workers,
    is_alive,
    record_heartbeat,
)
from unweave.text import counted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["STATES", "Ledger", "Record", "RunOutcome", "one_line", "summary"]

OPEN = ("planned", "claimed", "training")
"""States of runs that are not trained yet."""


class RunOutcome(NamedTuple):
    """Outcome of a run."""

    state: str  # one of `STATES`
    error: str | None = None  # error message, if any
    # The numbers in its row of the table; None to leave them unchanged.
    results: Mapping[str, float] | None = None
    scored_for: str | None = None  # hash of the metrics that were computed


class Record(NamedTuple):
    """Ledger entry of a run; for the fields see `Ledger.plan` and `RunOutcome`."""

    kind: str
    config: dict[str, Any]
    state: str
    worker: str | None
    error: str | None
    results: dict[str, float] | None
    requested: bool
    scored_for: str | None


class Ledger(LedgerFile):
    """The ledger of a study.

    Args:
        path: The SQLite file.
        create: Whether to create a missing file; if False, the ledger must also list runs.
    """

    def __init__(self, path: Path, create: bool = True) -> None:
        super().__init__(path, create)
        with self._open() as connection:
            if not create and not _count(connection):
                raise DamagedLedgerError(path, "it lists no runs")

    def plan(self, configs: Mapping[str, Mapping[str, Any]], kinds: Mapping[str, str]) -> int:
        """Add runs that are not listed yet, and return how many were added.

        Other runs in the ledger are marked as no longer requested: they stay listed but are not
        trained, scored or counted.

        Args:
            configs: Settings of each run, by run name.
            kinds: Kind of each run (`Config.kind`), by run name.
        """
        now = time.time()
        rows = [
            (run, kinds[run], json.dumps(config, sort_keys=True), now)
            for run, config in configs.items()
        ]
        with self._change() as connection:
            before = _count(connection)
            connection.executemany(
                "INSERT OR IGNORE INTO runs (run, kind, config, state, changed)"
                " VALUES (?, ?, ?, 'planned', ?)",
                rows,
            )
            count = _count(connection)
            connection.execute("UPDATE totals SET runs = ?", (count,))
            connection.execute("CREATE TEMP TABLE named (run TEXT PRIMARY KEY)")
            connection.executemany("INSERT INTO named VALUES (?)", [(run,) for run in configs])
            connection.execute(
                "UPDATE runs SET asked = NOT asked WHERE asked != (run IN (SELECT run FROM named))"
            )
            connection.execute("DROP TABLE named")
            return count - before

    def claim(self, worker: Worker, runs: Sequence[str]) -> list[str]:
        """Claim the given runs that are open and not held by a live worker; return them."""
        with self._change() as connection:
            record_heartbeat(connection, worker)
            takeable = {None, worker.name, *dead_holders(connection)}
            free = []
            for run in runs:
                state, holder = connection.execute(
                    "SELECT state, worker FROM runs WHERE run = ?", (run,)
                ).fetchone() or (None, None)
                if state in OPEN and holder in takeable:
                    free.append(run)
            now = time.time()
            connection.executemany(
                "UPDATE runs SET state = 'claimed', worker = ?, error = NULL, changed = ?"
                " WHERE run = ?",
                [(worker.name, now, run) for run in free],
            )
            return free

    def claim_trained(
        self, worker: Worker, count: int, scoring: Collection[str] = ()
    ) -> list[str]:
        """Claim trained runs for scoring that are not held by another live worker.

        Args:
            worker: The worker that claims them.
            count: Maximum number of runs.
            scoring: Runs that the worker is scoring now; it may claim its other runs again.
        """
        with self._change() as connection:
            record_heartbeat(connection, worker)
            takeable = {None, worker.name, *dead_holders(connection)}
            rows = connection.execute(
                "SELECT run, worker FROM runs WHERE asked = 1 AND state = 'trained'"
                " ORDER BY changed"
            )
            free = [run for run, holder in rows if holder in takeable and run not in scoring]
            free = free[:count]
            connection.executemany(
                "UPDATE runs SET worker = ? WHERE run = ?", [(worker.name, run) for run in free]
            )
            return free

    def heartbeat(self, worker: Worker, doing: str = "") -> None:
        """Record that a worker is alive, and its current activity."""
        with self._change() as connection:
            record_heartbeat(connection, worker, doing)

    def mark(self, runs: Sequence[str], state: str, error: str | None = None) -> None:
        """Set the state of runs without changing their results."""
        self.record({run: RunOutcome(state, error) for run in runs})

    def record(self, outcomes: Mapping[str, RunOutcome]) -> None:
        """Record outcomes of runs; only runs in training stay assigned to their worker."""
        now = time.time()
        rows = []
        for run, (state, error, results, scored_for) in outcomes.items():
            if state not in STATES:
                raise ValueError(f"state must be one of {', '.join(STATES)}, got {state!r}")
            # File names in an error message may not be valid UTF-8.
            text = None if error is None else error.encode(errors="backslashreplace").decode()
            numbers = None if results is None else json.dumps(results)
            rows.append((state, text, now, state in OPEN[1:], numbers, scored_for, run))
        with self._change() as connection:
            connection.executemany(
                "UPDATE runs SET state = ?, error = ?, changed = ?,"
                " worker = CASE WHEN ? THEN worker END,"
                " results = coalesce(?, results), scored_for = ? WHERE run = ?",
                rows,
            )

    def release(self, worker: Worker) -> None:
        """Release the unfinished runs of a worker and remove it from the ledger."""
        with self._change() as connection:
            _release(connection, [worker.name])

    def release_dead(self) -> None:
        """Release the runs of all workers that are no longer alive."""
        with self._change() as connection:
            _release(connection, dead_workers(connection))

    def reopen(self, runs: Sequence[str], state: str) -> None:
        """Reset runs that no worker holds, to be trained (`planned`) or scored (`trained`)."""
        with self._change() as connection:
            connection.executemany(
                "UPDATE runs SET state = ?, error = NULL, changed = ?"
                " WHERE run = ? AND worker IS NULL",
                [(state, time.time(), run) for run in runs],
            )

    def reopen_scored(self, scored_for: str) -> None:
        """Reset runs to be scored again if other metrics were computed than those given."""
        with self._change() as connection:
            connection.execute(
                "UPDATE runs SET state = 'trained', changed = ?"
                " WHERE state = 'scored' AND scored_for IS NOT ?",
                (time.time(), scored_for),
            )

    def record_speed(self, kind: str, device: str, seconds: float) -> None:
        """Record the measured seconds per step of one model of a kind, or of its fleet's mean."""
        with self._change() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO speeds VALUES (?, ?, ?)", (kind, device, seconds)
            )

    def speeds(self, device: str) -> dict[str, float]:
        """Measured seconds per step of one model on a device, by kind."""
        with self._open() as connection:
            return dict(
                connection.execute("SELECT kind, seconds FROM speeds WHERE device = ?", (device,))
            )

    def workers(self) -> list[tuple[str, int, float, str]]:
        """The live workers: host, process, time of the last heartbeat, and activity."""
        with self._open() as connection:
            rows = connection.execute("SELECT host, process, seen, doing FROM workers").fetchall()
        return [row for row in rows if is_alive(*row[:3])]

    def open_runs(self) -> dict[str, list[str]]:
        """Runs that a worker could claim now for training, by kind."""
        with self._open() as connection:
            dead = dead_holders(connection)
            marks = ", ".join("?" * len(OPEN))
            rows = connection.execute(
                f"SELECT run, kind, worker FROM runs WHERE asked = 1 AND state IN ({marks})"  # noqa: S608 - question marks
                " ORDER BY rowid",
                OPEN,
            ).fetchall()
        kinds: dict[str, list[str]] = {}
        for run, kind, holder in rows:
            if holder is None or holder in dead:
                kinds.setdefault(kind, []).append(run)
        return kinds

    def states(self) -> dict[str, str]:
        """The state of each run."""
        with self._open() as connection:
            return dict(connection.execute("SELECT run, state FROM runs").fetchall())

    def busy(self) -> bool:
        """Whether any run is still to be trained or scored."""
        with self._open() as connection:
            open_ones = connection.execute(
                "SELECT 1 FROM runs WHERE asked = 1"
                " AND state IN ('planned', 'claimed', 'training', 'trained') LIMIT 1"
            ).fetchone()
        return open_ones is not None

    def counts(self) -> dict[str, int]:
        """Number of runs in each state; runs of dead workers count as planned."""
        with self._open() as connection:
            connection.execute("BEGIN")
            found = dict(
                connection.execute(
                    "SELECT state, COUNT(*) FROM runs WHERE asked = 1 GROUP BY state"
                ).fetchall()
            )
            counts = {state: found.get(state, 0) for state in STATES}
            for worker in dead_holders(connection):
                for state in OPEN[1:]:
                    (count,) = connection.execute(
                        "SELECT COUNT(*) FROM runs WHERE asked = 1 AND worker = ? AND state = ?",
                        (worker, state),
                    ).fetchone()
                    counts[state] -= count
                    counts["planned"] += count
        return counts

    def reasons(self) -> list[tuple[str, str, int, str]]:
        """Errors of runs: state, message, number of runs, and the name of one of them."""
        with self._open() as connection:
            return connection.execute(
                "SELECT state, error, COUNT(*), MIN(run) FROM runs"
                " WHERE asked = 1 AND error IS NOT NULL"
                " GROUP BY state, error ORDER BY COUNT(*) DESC"
            ).fetchall()

    def table(self) -> "pd.DataFrame":
        """All runs: run, kind, state, worker, error, changed, asked (part of the study)."""
        import pandas as pd

        with self._open() as connection:
            columns = ["run", "kind", "state", "worker", "error", "changed", "asked"]
            rows = connection.execute(f"SELECT {', '.join(columns)} FROM runs ORDER BY rowid")  # noqa: S608 - constants
            table = pd.DataFrame(rows, columns=columns, dtype=object)
        return table.astype({"changed": float, "asked": bool})

    def rows(self) -> list[tuple[str, str, dict[str, Any], dict[str, float]]]:
        """All runs that have results: run, state, settings and results."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT run, state, config, results FROM runs"
                " WHERE asked = 1 AND results IS NOT NULL ORDER BY rowid"
            ).fetchall()
        return [(run, state, self._mapping(c), self._numbers(r)) for run, state, c, r in rows]

    def configs(self, runs: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The settings of the given runs."""
        with self._open() as connection:
            connection.execute("CREATE TEMP TABLE wanted (run TEXT)")
            connection.executemany("INSERT INTO wanted VALUES (?)", [(run,) for run in runs])
            rows = connection.execute("SELECT run, config FROM runs JOIN wanted USING (run)")
            return {run: self._mapping(config) for run, config in rows}

    def records(self) -> dict[str, Record]:
        """The complete entries of all runs, by name."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT run, kind, config, state, worker, error, results, asked, scored_for"
                " FROM runs ORDER BY rowid"
            ).fetchall()
        return {
            run: Record(
                kind,
                self._mapping(config),
                state,
                worker,
                error,
                None if results is None else self._numbers(results),
                bool(asked),
                scored_for,
            )
            for run, kind, config, state, worker, error, results, asked, scored_for in rows
        }

    def _mapping(self, text: str) -> dict[str, Any]:
        """Parse a cell that holds a JSON object."""
        try:
            value = parse_json(text)
        except ValueError as error:
            raise DamagedLedgerError(self.path, error) from error
        if not isinstance(value, dict):
            raise DamagedLedgerError(self.path, f"{text[:40]} is not a JSON object")
        return value

    def _numbers(self, text: str) -> dict[str, float]:
        numbers = self._mapping(text)
        for name, value in numbers.items():
            if type(value) not in (int, float):
                raise DamagedLedgerError(self.path, f"{name} must be a number, got {value!r}")
        return numbers


def summary(counts: Mapping[str, int]) -> str:
    """The number of runs, in total and in each state, as one line."""
    total = sum(counts.values())
    states = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    return f"{counted(total, 'run')}: {states}"


def one_line(error: BaseException) -> str:
    """An error message on one line; unexpected errors are prefixed with their type."""
    text = " ".join(str(error).split())
    return text if isinstance(error, UnweaveError) else f"{type(error).__name__}: {text}"


def _count(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute("SELECT COUNT(*) FROM runs").fetchone()
    return int(count)


def _release(connection: sqlite3.Connection, workers: Iterable[str]) -> None:
    names = [(worker,) for worker in workers]
    connection.executemany(
        "UPDATE runs SET worker = NULL, state ="
        " CASE state WHEN 'trained' THEN state ELSE 'planned' END WHERE worker = ?",
        names,
    )
    connection.executemany("DELETE FROM workers WHERE worker = ?", names)
