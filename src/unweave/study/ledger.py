"""The ledger of a study: which runs there are, what became of them, and who is at work on which.

One SQLite file beside the runs' folders. Every change is one transaction, so that a process may be
killed at any moment, and several processes may work on one study without doing a run twice. What
counts are the folders: the ledger can be thrown away and made again from them. It is verified when
it is opened (`ledger_file.py`).

A worker holds its claims only as long as it lives: it says so every few seconds (`beat`), and
claims of a worker that has been silent for too long, or whose process is gone from this machine,
are free again. A trained run that a worker holds is being scored.
"""

import json
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unweave.io.plain_data import parse_json
from unweave.study.ledger_file import STATES, DamagedLedgerError, LedgerFile
from unweave.study.workers import Worker, gone_holders, gone_workers, lives, note_seen
from unweave.text import counted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["STATES", "Ledger", "Record", "summary"]

OPEN = ("planned", "claimed", "training")
"""States of runs that have still to be trained."""


class Record(NamedTuple):
    """What the ledger says of a run; for the columns see `Ledger.plan` and `Ledger.mark`."""

    kind: str
    config: dict[str, Any]
    state: str
    worker: str | None
    error: str | None
    results: dict[str, float] | None
    asked: bool
    scored_for: str | None


class Ledger(LedgerFile):
    """The ledger in a file.

    Args:
        path: The file.
        create: Whether to make it if it is missing; without, it must also list some runs.
    """

    def __init__(self, path: Path, create: bool = True) -> None:
        super().__init__(path, create)
        if not create and not self._any_runs():
            raise DamagedLedgerError(path, "it lists no runs")

    def plan(self, configs: Mapping[str, Mapping[str, Any]], kinds: Mapping[str, str]) -> int:
        """Add runs that are not there yet; how many were added.

        Runs that are there and not among these are no longer asked for: they stay, but nobody
        trains, scores or counts them.

        Args:
            configs: The settings of each run, by its name.
            kinds: What runs that can share a fleet have in common, by the run's name.
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
        """Take those of some runs that are open and that no living worker holds."""
        with self._change() as connection:
            note_seen(connection, worker)
            gone = gone_holders(connection)
            free = [
                run
                for run, state, holder in _rows(connection, runs)
                if state in OPEN and (holder is None or holder in gone or holder == worker.name)
            ]
            now = time.time()
            connection.executemany(
                "UPDATE runs SET state = 'claimed', worker = ?, error = NULL, changed = ?"
                " WHERE run = ?",
                [(worker.name, now, run) for run in free],
            )
            return free

    def claim_trained(self, worker: Worker, count: int, having: Collection[str] = ()) -> list[str]:
        """Take at most so many trained runs, to score them, that no living worker holds.

        Args:
            worker: Who takes them.
            count: How many at most.
            having: What it is scoring now; what else it holds it has lost sight of.
        """
        with self._change() as connection:
            note_seen(connection, worker)
            gone = gone_holders(connection)
            rows = connection.execute(
                "SELECT run, worker FROM runs WHERE asked = 1 AND state = 'trained'"
                " ORDER BY changed"
            )
            lost = {None, worker.name, *gone}
            free = [run for run, holder in rows if holder in lost and run not in having][:count]
            connection.executemany(
                "UPDATE runs SET worker = ? WHERE run = ?", [(worker.name, run) for run in free]
            )
            return free

    def beat(self, worker: Worker, doing: str = "") -> None:
        """Say that a worker lives, and what it is doing."""
        with self._change() as connection:
            note_seen(connection, worker, doing)

    def mark(
        self,
        runs: Sequence[str],
        state: str,
        error: str | None = None,
        results: Sequence[Mapping[str, float]] | None = None,
        scored_for: str | None = None,
    ) -> None:
        """Say what became of some runs; only those that are being trained keep their worker.

        Args:
            runs: Their names.
            state: One of `STATES`.
            error: What went wrong.
            results: The numbers of each run's row in the table; by default they stay.
            scored_for: A name for all that was measured of them.
        """
        if state not in STATES:
            raise ValueError(f"{state!r} is none of {', '.join(STATES)}")
        held = "worker" if state in OPEN[1:] else "NULL"
        texts = [json.dumps(one) for one in results] if results else [None] * len(runs)
        if error is not None:
            # File names in it may be no text.
            error = error.encode(errors="backslashreplace").decode()
        with self._change() as connection:
            connection.executemany(
                f"UPDATE runs SET state = ?, error = ?, changed = ?, worker = {held},"  # noqa: S608 - one of two words
                " results = coalesce(?, results), scored_for = ? WHERE run = ?",
                [
                    (state, error, time.time(), text, scored_for, run)
                    for run, text in zip(runs, texts, strict=True)
                ],
            )

    def release(self, worker: Worker) -> None:
        """Give back what a worker holds and has not finished, and strike it off."""
        with self._change() as connection:
            _release(connection, [worker.name])

    def release_gone(self) -> None:
        """The same for all workers that do not live any more."""
        with self._open() as connection:
            gone = gone_workers(connection)
        if gone:
            with self._change() as connection:
                _release(connection, gone_workers(connection))

    def held(self, worker: Worker) -> list[str]:
        """The runs that a worker holds."""
        with self._open() as connection:
            rows = connection.execute("SELECT run FROM runs WHERE worker = ?", (worker.name,))
            return [run for (run,) in rows]

    def reopen(self, runs: Sequence[str], state: str) -> None:
        """Put runs that nobody holds back to be trained (`planned`) or scored (`trained`)."""
        with self._change() as connection:
            connection.executemany(
                "UPDATE runs SET state = ?, error = NULL, changed = ?"
                " WHERE run = ? AND worker IS NULL",
                [(state, time.time(), run) for run in runs],
            )

    def reopen_scored(self, asked: str) -> None:
        """Put runs back to be scored of which something else was measured than is asked now."""
        with self._change() as connection:
            connection.execute(
                "UPDATE runs SET state = 'trained', changed = ?"
                " WHERE state = 'scored' AND scored_for IS NOT ?",
                (time.time(), asked),
            )

    def note_speed(self, kind: str, device: str, seconds: float) -> None:
        """Remember how long a step of one model took in a fleet of some kind."""
        with self._change() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO speeds VALUES (?, ?, ?)", (kind, device, seconds)
            )

    def speeds(self, device: str) -> dict[str, float]:
        """Seconds per step of one model, by kind, as far as they were met on a device."""
        with self._open() as connection:
            return dict(
                connection.execute("SELECT kind, seconds FROM speeds WHERE device = ?", (device,))
            )

    def workers(self) -> list[tuple[str, int, float, str]]:
        """The workers that live: host, process, when last seen, and what they are doing."""
        with self._open() as connection:
            rows = connection.execute("SELECT host, process, seen, doing FROM workers").fetchall()
        return [row for row in rows if lives(*row[:3])]

    def open_runs(self) -> dict[str, list[str]]:
        """Runs that a worker could claim now, by kind."""
        with self._open() as connection:
            gone = gone_holders(connection)
            marks = ", ".join("?" * len(OPEN))
            rows = connection.execute(
                f"SELECT run, kind, worker FROM runs WHERE asked = 1 AND state IN ({marks})"  # noqa: S608 - question marks
                " ORDER BY rowid",
                OPEN,
            ).fetchall()
        kinds: dict[str, list[str]] = {}
        for run, kind, holder in rows:
            if holder is None or holder in gone:
                kinds.setdefault(kind, []).append(run)
        return kinds

    def states(self) -> dict[str, str]:
        """What has become of each run."""
        with self._open() as connection:
            return dict(connection.execute("SELECT run, state FROM runs").fetchall())

    def busy(self) -> bool:
        """Whether some run has still to be trained or scored."""
        with self._open() as connection:
            open_ones = connection.execute(
                "SELECT 1 FROM runs WHERE asked = 1"
                " AND state IN ('planned', 'claimed', 'training', 'trained') LIMIT 1"
            ).fetchone()
        return open_ones is not None

    def counts(self) -> dict[str, int]:
        """How many runs are in each state; what a dead worker was training is planned again."""
        with self._open() as connection:
            connection.execute("BEGIN")
            found = dict(
                connection.execute(
                    "SELECT state, COUNT(*) FROM runs WHERE asked = 1 GROUP BY state"
                ).fetchall()
            )
            counts = {state: found.get(state, 0) for state in STATES}
            for worker in gone_holders(connection):
                for state in OPEN[1:]:
                    (count,) = connection.execute(
                        "SELECT COUNT(*) FROM runs WHERE asked = 1 AND worker = ? AND state = ?",
                        (worker, state),
                    ).fetchone()
                    counts[state] -= count
                    counts["planned"] += count
        return counts

    def reasons(self) -> list[tuple[str, str, int, str]]:
        """What is to be said of runs: state, error, of how many, and the name of one of them."""
        with self._open() as connection:
            return connection.execute(
                "SELECT state, error, COUNT(*), MIN(run) FROM runs"
                " WHERE asked = 1 AND error IS NOT NULL"
                " GROUP BY state, error ORDER BY COUNT(*) DESC"
            ).fetchall()

    def table(self) -> "pd.DataFrame":
        """All runs: run, kind, state, worker, error, changed, and whether it is asked for."""
        import pandas as pd

        with self._open() as connection:
            rows = connection.execute(
                "SELECT run, kind, state, worker, error, changed, asked FROM runs ORDER BY rowid"
            ).fetchall()
        columns = ["run", "kind", "state", "worker", "error", "changed", "asked"]
        table = pd.DataFrame(rows, columns=columns, dtype=object)
        return table.astype({"changed": float, "asked": bool})

    def rows(self) -> list[tuple[str, str, dict[str, Any], dict[str, float]]]:
        """All runs that have numbers: run, state, settings and numbers."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT run, state, config, results FROM runs"
                " WHERE asked = 1 AND results IS NOT NULL ORDER BY rowid"
            ).fetchall()
        return [(run, state, self._mapping(c), self._numbers(r)) for run, state, c, r in rows]

    def configs(self, runs: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The settings of some runs."""
        with self._open() as connection:
            connection.execute("CREATE TEMP TABLE wanted (run TEXT)")
            connection.executemany("INSERT INTO wanted VALUES (?)", [(run,) for run in runs])
            rows = connection.execute("SELECT run, config FROM runs JOIN wanted USING (run)")
            return {run: self._mapping(config) for run, config in rows}

    def records(self) -> dict[str, Record]:
        """All that is written down of every run."""
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

    def _any_runs(self) -> bool:
        with self._open() as connection:
            return connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone() is not None

    def _mapping(self, text: str) -> dict[str, Any]:
        """What the JSON in a cell stands for."""
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
                raise DamagedLedgerError(self.path, f"{name} is {value!r}, which is no number")
        return numbers


def summary(counts: Mapping[str, int]) -> str:
    """How many runs there are in all and in each state, in a line."""
    total = sum(counts.values())
    said = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    return f"{counted(total, 'run')}: {said}"


def _rows(connection: sqlite3.Connection, runs: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for run in runs:
        yield from connection.execute(
            "SELECT run, state, worker FROM runs WHERE run = ?", (run,)
        ).fetchall()


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
