"""The ledger of a study: which runs there are, what became of them, and who is at work on which.

One SQLite file beside the runs' folders. Every change is one transaction, so that a process may be
killed at any moment, and several processes may work on one study without doing a run twice. What
counts are the folders: the ledger can be thrown away and made again from them.

A worker holds its claims only as long as it lives: it says so every few seconds (`beat`), and
claims of a worker that has been silent for too long, or whose process is gone from this machine,
are free again. A trained run that a worker holds is being scored.
"""

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unweave.study.ledger_file import LedgerFile
from unweave.study.workers import Worker, gone_holders, lives, note_seen
from unweave.words import counted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["STATES", "Ledger", "summary"]

STATES = ("planned", "claimed", "training", "trained", "scored", "diverged", "failed")
OPEN = ("planned", "claimed", "training")
"""States of runs that have still to be trained."""


class Ledger(LedgerFile):
    """The ledger in a file, made if it is not there.

    Args:
        path: The file.
        create: Whether to make it if need be.
    """

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
            before = connection.total_changes
            connection.executemany(
                "INSERT OR IGNORE INTO runs (run, kind, config, state, changed)"
                " VALUES (?, ?, ?, 'planned', ?)",
                rows,
            )
            added = connection.total_changes - before
            connection.execute("CREATE TEMP TABLE named (run TEXT PRIMARY KEY)")
            connection.executemany("INSERT INTO named VALUES (?)", [(run,) for run in configs])
            connection.execute("UPDATE runs SET asked = run IN (SELECT run FROM named)")
            connection.execute("DROP TABLE named")
            return added

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

    def claim_trained(self, worker: Worker, count: int, having: Sequence[str] = ()) -> list[str]:
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
        """Give back what a worker holds and has not finished."""
        with self._change() as connection:
            connection.execute(
                "UPDATE runs SET worker = NULL, state ="
                " CASE state WHEN 'trained' THEN state ELSE 'planned' END WHERE worker = ?",
                (worker.name,),
            )
            connection.execute("DELETE FROM workers WHERE worker = ?", (worker.name,))

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
        """How many runs are in each state."""
        with self._open() as connection:
            found = dict(
                connection.execute(
                    "SELECT state, COUNT(*) FROM runs WHERE asked = 1 GROUP BY state"
                )
            )
        return {state: found.get(state, 0) for state in STATES}

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
        return [(run, state, json.loads(c), json.loads(r)) for run, state, c, r in rows]

    def configs(self, runs: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The settings of some runs."""
        with self._open() as connection:
            connection.execute("CREATE TEMP TABLE wanted (run TEXT)")
            connection.executemany("INSERT INTO wanted VALUES (?)", [(run,) for run in runs])
            rows = connection.execute("SELECT run, config FROM runs JOIN wanted USING (run)")
            return {run: json.loads(config) for run, config in rows}


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
