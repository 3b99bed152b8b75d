"""Access control: only the explorer's own page may send requests, and only with the token.

Other users of the machine can connect to 127.0.0.1 as well, so a random token, printed in the
terminal as part of the address, is exchanged for a cookie on the first visit, and every other
request needs that cookie.

Other websites can make a browser send requests to 127.0.0.1, but they cannot forge the headers
`Host`, `Origin` and `Sec-Fetch-Site`. Requests with other values of these are rejected before
they reach the app.
"""

import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import parse_qs

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
"""Headers of every response."""
SAFE_METHODS = ("GET", "HEAD")
HOST_NAMES = ("127.0.0.1", "localhost", "[::1]")
MAX_PATH_LENGTH = 100
MAX_DISCARDED_BYTES = 128 * 2**20
"""Maximum size of a rejected body that is still read, so that its sender gets the response."""

PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark"><title>unweave explorer</title>'
)
# Not an HTTP redirect: if the visit started from another site or a local file, the browser would
# follow the redirect without the SameSite=Strict cookie that it has just received.
REDIRECT_PAGE = (
    f'{PAGE}<link rel="icon" href="/icon.svg" type="image/svg+xml">'
    '<meta http-equiv="refresh" content="0; url=/"><p><a href="/">Open the explorer</a></p>'
)
LOCKED_PAGE = (
    f"{PAGE}<h1>The explorer needs its token</h1>"
    "<p>Open the full address printed in the terminal by <code>unweave explore</code>, including "
    "<code>?token=…</code>. The token changes each time the explorer starts.</p>"
)


class Guard:
    """ASGI middleware that rejects requests from anything but the explorer's own page.

    Args:
        app: App to protect.
        port: Port that the app is served at.
        token: Secret in the address of the first visit.
    """

    def __init__(self, app: App, port: int, token: str) -> None:
        self.app = app
        self.port = port
        self.hosts = {f"{name}:{port}" for name in HOST_NAMES}
        if port == 80:
            self.hosts |= set(HOST_NAMES)
        self.origins = {f"http://{host}" for host in self.hosts}
        self.cookie = f"unweave-explorer-{port}"  # cookies are shared by all ports of a host
        self._token = token.encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # web sockets are not supported
            await send({"type": "websocket.close", "code": 1008})
            return
        more_to_come = True

        async def received() -> Message:
            nonlocal more_to_come
            message = await receive()
            more_to_come = message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    pair for pair in message.get("headers", []) if pair[0] not in _HEADER_BYTES
                ]
                if more_to_come and not await _discard_body(scope, received):
                    headers.append((b"connection", b"close"))
                message = {**message, "headers": [*headers, *_HEADER_BYTES.items()]}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await _answer_json(send_with_headers, *refusal)
        elif self._has_token(scope):
            cookie = f"{self.cookie}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict"
            await _answer_page(
                send_with_headers, 200, REDIRECT_PAGE, (b"set-cookie", cookie.encode())
            )
        elif self._has_cookie(scope):
            await self.app(scope, received, send_with_headers)
        elif scope["path"] == "/":
            await _answer_page(send_with_headers, 403, LOCKED_PAGE)
        else:
            error = "the token is missing or expired; open the full address from the terminal"
            await _answer_json(send_with_headers, 403, error)

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        """Return the status and message for a request to reject regardless of its token."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 421, (
                f"this page is only available at 127.0.0.1:{self.port} and localhost:{self.port}; "
                "to use it from another machine, forward the same port"
            )
        if any(origin.lower() not in self.origins for origin in _values(scope, b"origin")):
            return 403, "requests from other sites are not allowed"
        sites = _values(scope, b"sec-fetch-site")
        reached_otherwise = scope["method"] not in SAFE_METHODS or scope["path"] != "/"
        if reached_otherwise and any(site not in ("same-origin", "none") for site in sites):
            return 403, "requests from other sites are not allowed"
        if len(scope["path"]) > MAX_PATH_LENGTH:  # Python refuses to parse very long numbers
            return 404, "not found"
        return None

    def _has_token(self, scope: Message) -> bool:
        """Return whether this request opens the printed address."""
        if scope["method"] not in SAFE_METHODS or scope["path"] != "/":
            return False
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        return any(map(self._is_token, query.get("token", [])))

    def _has_cookie(self, scope: Message) -> bool:
        pairs = [pair.partition("=") for v in _values(scope, b"cookie") for pair in v.split(";")]
        return any(
            self._is_token(value) for name, _, value in pairs if name.strip() == self.cookie
        )

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.strip().encode(), self._token)


_HEADER_BYTES = {name.lower().encode(): value.encode() for name, value in HEADERS.items()}


def _values(scope: Message, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


async def _discard_body(scope: Message, receive: Receive) -> bool:
    """Read and discard the rest of a rejected body; return False if it is too large for that.

    Most clients read the response only after sending everything. If the connection were closed
    before that, they would report a connection reset instead of the response.
    """
    announced = "".join(_values(scope, b"content-length"))
    too_long = announced.isdecimal() and int(announced) > MAX_DISCARDED_BYTES
    if too_long or _values(scope, b"expect"):  # "expect" clients wait before sending the body
        return False
    discarded = 0
    while discarded <= MAX_DISCARDED_BYTES:
        message = await receive()
        discarded += len(message.get("body", b""))
        if not message.get("more_body", False):
            return True
    return False


async def _answer_json(send: Send, status: int, error: str) -> None:
    body = json.dumps({"error": error}).encode()
    await _answer(send, status, body, (b"content-type", b"application/json"))


async def _answer_page(send: Send, status: int, page: str, *headers: tuple[bytes, bytes]) -> None:
    kind = (b"content-type", b"text/html; charset=utf-8")
    await _answer(send, status, page.encode(), kind, *headers)


async def _answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
