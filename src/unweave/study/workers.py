"""The workers of a study, and whether they are still alive.

Workers are rows of the ledger. A driver, the process that runs a study on Ray, also writes a token
to the study's folder: a file by which tasks recognise the folder of their driver.
"""

import hashlib
import os
import re
import socket
import sqlite3
import time
import uuid
from typing import NamedTuple

__all__ = [
    "TOKEN",
    "Worker",
    "dead_holders",
    "dead_workers",
    "driver_ended",
    "is_alive",
    "new_token",
    "process_exists",
    "record_heartbeat",
]

TIMEOUT = 120.0
"""Seconds without a heartbeat after which a worker is considered dead."""
MAX_CLOCK_SKEW = 3600.0
"""Seconds by which the clock of another machine may be ahead."""
DAY = 86_400.0
TOKEN = ".ray-"  # noqa: S105 - no password
"""Prefix of the names of tokens."""
OWNED = re.compile(rf"{re.escape(TOKEN)}([0-9a-f]{{8}})-(\d{{1,9}})-(\d{{1,12}})-[0-9a-f]{{32}}")
"""Token with host, process and time; tokens of the first version have none of these."""


class Worker(NamedTuple):
    """A process that claims runs."""

    name: str
    host: str
    process: int

    @classmethod
    def here(cls) -> "Worker":
        """This process, with a new unique name."""
        return cls(uuid.uuid4().hex, socket.gethostname(), os.getpid())


def record_heartbeat(
    connection: sqlite3.Connection, worker: Worker, doing: str | None = None
) -> None:
    """Record that a worker is alive, and its current activity."""
    connection.execute(
        "INSERT INTO workers VALUES (?, ?, ?, ?, ?) ON CONFLICT (worker)"
        " DO UPDATE SET seen = excluded.seen, doing = coalesce(?, doing)",
        (*worker, time.time(), doing or "", doing),
    )


def dead_holders(connection: sqlite3.Connection) -> set[str]:
    """Dead workers that still hold runs."""
    known = _known(connection)
    holders = connection.execute(
        "SELECT DISTINCT worker FROM runs WHERE worker IS NOT NULL"
    ).fetchall()
    return {name for (name,) in holders if name not in known or not is_alive(*known[name])}


def dead_workers(connection: sqlite3.Connection) -> set[str]:
    """All dead workers, whether they hold runs or not."""
    known = _known(connection)
    return {name for name in known if not is_alive(*known[name])} | dead_holders(connection)


def _known(connection: sqlite3.Connection) -> dict[str, tuple[str, int, float]]:
    rows = connection.execute("SELECT worker, host, process, seen FROM workers")
    return {name: (host, process, last) for name, host, process, last in rows}


def is_alive(host: str, process: int, last: float) -> bool:
    """Whether a worker is alive, given the time of its last heartbeat."""
    now = time.time()
    if not now - TIMEOUT <= last <= now + MAX_CLOCK_SKEW:
        return False
    return host != socket.gethostname() or process_exists(process)


def process_exists(process: int) -> bool:
    """Whether a process with this ID exists on this machine."""
    if not 0 < process < 2**31:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def new_token() -> str:
    """A new token name for this process."""
    return f"{TOKEN}{_host()}-{os.getpid()}-{int(time.time())}-{uuid.uuid4().hex}"


def driver_ended(token: str) -> bool | None:
    """Whether the driver that wrote a token has ended; None if unknown.

    A driver on another machine may have no worker yet while it waits for its cluster, so it is
    assumed to be alive for a day.
    """
    owned = OWNED.fullmatch(token)
    if owned is not None and owned[1] == _host():
        return not process_exists(int(owned[2]))
    return False if owned is not None and time.time() - int(owned[3]) < DAY else None


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
