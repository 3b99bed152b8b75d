"""Files in a study's folder by which workers on Ray see that it is the folder of their driver.

A driver, the process that runs a study on Ray, removes its token when it ends. The tokens of
drivers that were killed are removed by the next run.
"""

import hashlib
import os
import re
import socket
import time
import uuid

from unweave.errors import UnweaveError
from unweave.study.store import LEDGER, TOKEN, Store
from unweave.study.workers import runs_here

__all__ = ["dead_tokens", "new_token", "remove_dead_tokens"]

DAY = 86_400.0
OWNED = re.compile(rf"{re.escape(TOKEN)}([0-9a-f]{{8}})-(\d{{1,9}})-(\d{{1,12}})-[0-9a-f]{{32}}")
"""Host, process and time; tokens of the first edition have none of these."""


def new_token() -> str:
    """A name for a token of this process."""
    return f"{TOKEN}{_host()}-{os.getpid()}-{int(time.time())}-{uuid.uuid4().hex}"


def dead_tokens(store: Store) -> list[str]:
    """The tokens whose driver does not run any more.

    Another machine's driver may be waiting for room on its cluster, and thus have no worker yet:
    its token counts as dead only after a day.
    """
    return [token for token in store.tokens() if _dead(token, store)]


def remove_dead_tokens(store: Store) -> None:
    """Remove what killed drivers left."""
    for token in dead_tokens(store):
        store.take_back(token)


def _dead(token: str, store: Store) -> bool:
    owned = OWNED.fullmatch(token)
    if owned is not None and owned[1] == _host():
        return not runs_here(int(owned[2]))
    if owned is not None and time.time() - int(owned[3]) < DAY:
        return False
    try:
        return not ((store.folder / LEDGER).exists() and store.ledger.workers())
    except UnweaveError:
        return True  # nobody can work with a damaged ledger


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
