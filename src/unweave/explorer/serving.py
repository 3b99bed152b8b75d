"""Serving the explorer on this machine: a port, a thread, a browser, and a clean end."""

import errno
import logging
import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from unweave.errors import UnweaveError
from unweave.progress import say

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["explore", "running"]

HOST = "127.0.0.1"
GLANCE_SECONDS = 0.2
PATIENCE_SECONDS = 15.0
BACKLOG = 128


def explore(
    models: "Models",
    data: "Dataset | str | None" = None,
    port: int | None = None,
    open_browser: bool = True,
) -> None:
    """Serve a page with a slider for every latent, until Ctrl-C.

    The address contains a random token that keeps other users of the machine out.

    Args:
        models: A fleet, a model, the folder of a saved run, a folder of such folders, the folder
            of a study, or several of these.
        data: A data set, or the name of one, to start from; by default what each model was
            trained on, where that can be made again without a download.
        port: By default one that is free.
        open_browser: Whether to open the page in a browser.
    """
    with running(models, data, port) as address, ExitStack() as stack:
        say(f"the explorer is at {address} (Ctrl-C ends it)")
        if open_browser:
            _open_browser(address, stack)
        try:
            while True:
                time.sleep(GLANCE_SECONDS)
        except KeyboardInterrupt:
            say("the explorer has ended")


@contextmanager
def running(
    models: "Models",
    data: "Dataset | str | None" = None,
    port: int | None = None,
    patience: float = PATIENCE_SECONDS,
) -> Iterator[str]:
    """Serve the explorer within this context; yields its address, including the token.

    Args:
        models: As for `explore`.
        data: As for `explore`.
        port: As for `explore`.
        patience: Seconds after which an incomplete request is dropped.
    """
    import uvicorn

    from unweave.data import load
    from unweave.explorer.app import make_app
    from unweave.explorer.connections import connections_with
    from unweave.explorer.model_index import entries_of
    from unweave.explorer.opened_models import Shelf

    shelf = Shelf(entries_of(models), load(data) if isinstance(data, str) else data)
    with _listening(port) as listening:
        number = listening.getsockname()[1]
        token = secrets.token_urlsafe()
        config = uvicorn.Config(
            make_app(shelf, number, token, _title(models)),
            http=connections_with(patience),
            backlog=BACKLOG,
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        # In a thread of its own it works in notebooks too, where an event loop already runs.
        thread = threading.Thread(target=server.run, args=[[listening]], daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{number}/?token={token}"
        finally:
            # Requests cut short by the shutdown are not errors.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            server.should_exit = True
            thread.join()


def _open_browser(address: str, stack: ExitStack) -> None:
    """Open the address in a browser without passing it as an argument.

    Other users can see the arguments of a process. So the browser opens a file that redirects to
    the address and that only its owner can read; it is deleted when the stack is closed.
    """
    try:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="unweave-explorer-")))
        file = folder / "explorer.html"
        file.touch(0o600)
        file.write_text(
            '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={address}">'
            f'<title>unweave explorer</title><a href="{address}">Open the explorer</a>\n',
            encoding="utf-8",
        )
    except OSError as error:
        say(f"could not open a browser ({error.strerror}); open the address above yourself")
        return
    threading.Thread(target=webbrowser.open, args=[file.as_uri()], daemon=True).start()


def _title(models: Any) -> str:
    return Path(models).resolve().name if isinstance(models, str | Path) else "models"


def _listening(port: int | None) -> socket.socket:
    """A socket of this machine only, which takes connections from now on."""
    if port is not None and not 1 <= port <= 65_535:
        raise UnweaveError(f"a port is a number from 1 to 65535, but got {port}")
    # The protocol is named since asyncio sends small answers at once only where it sees it.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # where it would let two programs share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port or 0))
        listening.listen()
    except OSError as error:
        listening.close()
        taken = error.errno == errno.EADDRINUSE
        reason = "is taken by another program" if taken else f"cannot be used ({error.strerror})"
        raise UnweaveError(
            f"port {port} {reason}; choose another one, or leave it out for one that is free"
        ) from error
    return listening
