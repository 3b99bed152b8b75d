"""Who is at work on a study, and whether they still live."""

import os
import socket
import sqlite3
import time
import uuid
from typing import NamedTuple

__all__ = ["Worker", "gone_holders", "gone_workers", "lives", "note_seen", "runs_here"]

SILENCE = 120.0
"""Seconds after which a worker that says nothing counts as gone."""
AHEAD = 3600.0
"""How far the clock of another machine may be ahead of this one's."""


class Worker(NamedTuple):
    """A process that takes runs."""

    name: str
    host: str
    process: int

    @classmethod
    def here(cls) -> "Worker":
        """This process, under a name that no other has had."""
        return cls(uuid.uuid4().hex, socket.gethostname(), os.getpid())


def note_seen(connection: sqlite3.Connection, worker: Worker, doing: str | None = None) -> None:
    """Write down that a worker lives, and what it is doing."""
    connection.execute(
        "INSERT INTO workers VALUES (?, ?, ?, ?, ?) ON CONFLICT (worker)"
        " DO UPDATE SET seen = excluded.seen, doing = coalesce(?, doing)",
        (*worker, time.time(), doing or "", doing),
    )


def gone_holders(connection: sqlite3.Connection) -> set[str]:
    """Workers that hold runs and do not live."""
    known = _known(connection)
    holders = connection.execute(
        "SELECT DISTINCT worker FROM runs WHERE worker IS NOT NULL"
    ).fetchall()
    return {name for (name,) in holders if name not in known or not lives(*known[name])}


def gone_workers(connection: sqlite3.Connection) -> set[str]:
    """Workers that do not live, whether they hold runs or not."""
    known = _known(connection)
    return {name for name in known if not lives(*known[name])} | gone_holders(connection)


def lives(host: str, process: int, last: float) -> bool:
    """Whether a worker lives that was last seen at some time."""
    now = time.time()
    if not now - SILENCE <= last <= now + AHEAD:
        return False
    return host != socket.gethostname() or runs_here(process)


def runs_here(process: int) -> bool:
    """Whether there is a process with this number on this machine."""
    if not 0 < process < 2**31:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _known(connection: sqlite3.Connection) -> dict[str, tuple[str, int, float]]:
    rows = connection.execute("SELECT worker, host, process, seen FROM workers")
    return {name: (host, process, last) for name, host, process, last in rows}
