"""Who may ask: only the page itself, on this machine. Wraps the whole app.

A page elsewhere on the web can make a browser send requests to 127.0.0.1. It cannot lie about its
own name, though: `Host` names what it believes to talk to, `Origin` and `Sec-Fetch-Site` where it
comes from. Whatever does not fit is refused before the app sees it.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

__all__ = ["HEADERS", "Guard"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer."""
SAFE = ("GET", "HEAD")
NAMES = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """An app that answers only its own page.

    Args:
        app: What it guards.
        port: Where it is served.
    """

    def __init__(self, app: App, port: int) -> None:
        self.app = app
        self.port = port
        self.hosts = {f"{name}:{port}" for name in NAMES}
        if port == 80:
            self.hosts |= set(NAMES)
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets here
            await send({"type": "websocket.close", "code": 1008})
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message.get("headers", []) if pair[0] not in _SEALS]
                message = {**message, "headers": [*kept, *_SEALS.items()]}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, sealed)
        else:
            await _answer(sealed, *refusal)

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        """The status and the sentence for a request that is refused."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 421, (
                f"this page is served as 127.0.0.1:{self.port} and localhost:{self.port} only; "
                "from another machine, forward the same port"
            )
        if any(origin.lower() not in self.origins for origin in _values(scope, b"origin")):
            return 403, "only the explorer's own page may ask for this"
        sites = _values(scope, b"sec-fetch-site")
        reached_otherwise = scope["method"] not in SAFE or scope["path"] != "/"
        if reached_otherwise and any(site not in ("same-origin", "none") for site in sites):
            return 403, "only the explorer's own page may ask for this"
        return None


_SEALS = {name.lower().encode(): value.encode() for name, value in HEADERS.items()}


def _values(scope: Message, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


async def _answer(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
