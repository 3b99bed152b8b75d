"""Local server of the explorer: port, server thread, browser and shutdown."""

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
from typing import TYPE_CHECKING

from unweave.errors import UnweaveError
from unweave.progress import say

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["explore", "running"]

HOST = "127.0.0.1"
POLL_SECONDS = 0.2
REQUEST_TIMEOUT_SECONDS = 15.0
BACKLOG = 128


def explore(
    models: "Models",
    data: "Dataset | str | None" = None,
    port: int | None = None,
    open_browser: bool = True,
) -> None:
    """Serve a local web page with a slider for every latent, until Ctrl-C.

    The address contains a random token that keeps out other users of the machine.

    Args:
        models: A fleet, a model, the folder of a saved run, a folder of such folders, the folder
            of a study, or several of these.
        data: Data set, or its name, with the images to start from (default: the one that each
            model was trained on, if available without a download).
        port: Port to serve on (default: any free port).
        open_browser: Whether to open the page in a browser (default True).
    """
    with running(models, data, port) as address, ExitStack() as stack:
        say(f"explorer running at {address} (Ctrl-C to stop)")
        if open_browser:
            _open_browser(address, stack)
        try:
            while True:
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            say("explorer stopped")


@contextmanager
def running(
    models: "Models",
    data: "Dataset | str | None" = None,
    port: int | None = None,
    timeout: float = REQUEST_TIMEOUT_SECONDS,
) -> Iterator[str]:
    """Serve the explorer within this context; yields its address, including the token.

    Args:
        models: See `explore`.
        data: See `explore`.
        port: See `explore`.
        timeout: Timeout for incomplete requests, in seconds.
    """
    import uvicorn

    from unweave.data import load
    from unweave.explorer.app import make_app
    from unweave.explorer.connections import connections_with
    from unweave.explorer.model_index import entries_of
    from unweave.explorer.opened_models import OpenedModels

    given = load(data) if isinstance(data, str) else data
    opened = OpenedModels(entries_of(models), given)
    with _listening(port) as listening:
        number = listening.getsockname()[1]
        token = secrets.token_urlsafe()
        title = Path(models).resolve().name if isinstance(models, str | Path) else "models"
        config = uvicorn.Config(
            make_app(opened, number, token, title),
            http=connections_with(timeout),
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
        # A separate thread also works in notebooks, which already run an event loop.
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

    Other users can see the arguments of a process. So the browser opens a file that only its owner
    can read and that redirects to the address; it is deleted when the stack is closed.
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
        say(f"could not open a browser ({error.strerror}); open the address above manually")
        return
    threading.Thread(target=webbrowser.open, args=[file.as_uri()], daemon=True).start()


def _listening(port: int | None) -> socket.socket:
    """Return a listening socket that only accepts connections from this machine."""
    if port is not None and not 1 <= port <= 65_535:
        raise UnweaveError(f"port must be from 1 to 65535, got {port}", subject="port", value=port)
    # asyncio sends small responses without delay only if the protocol is set explicitly.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # on Windows, this would let two programs share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port or 0))
        listening.listen()
    except OSError as error:
        listening.close()
        in_use = error.errno == errno.EADDRINUSE
        reason = "is already in use" if in_use else f"cannot be used ({error.strerror})"
        raise UnweaveError(
            f"port {port} {reason}; choose another one, or omit it to use any free port",
            subject="port",
            value=port,
        ) from error
    return listening
