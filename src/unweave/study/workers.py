"""Who is at work on a study, and whether they still live."""

import os
import socket
import sqlite3
import time
import uuid
from typing import NamedTuple

__all__ = ["Worker", "gone_holders", "lives", "note_seen"]

SILENCE = 120.0
"""Seconds after which a worker that says nothing counts as gone."""


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
    known = {
        name: (host, process, last)
        for name, host, process, last in connection.execute(
            "SELECT worker, host, process, seen FROM workers"
        )
    }
    holders = connection.execute(
        "SELECT DISTINCT worker FROM runs WHERE worker IS NOT NULL"
    ).fetchall()
    return {name for (name,) in holders if name not in known or not lives(*known[name])}


def lives(host: str, process: int, last: float) -> bool:
    """Whether a worker lives that was last seen at some time."""
    if time.time() - last > SILENCE:
        return False
    if host != socket.gethostname():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
