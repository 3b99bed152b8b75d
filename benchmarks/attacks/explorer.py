"""Attacks on the explorer: unauthorised, half-open, oversized and malformed requests.

After every case, the server must still answer authorised requests, without a traceback.
"""

import io
import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from .calling import TRACEBACK, Outcome, Tally
from .victims import Victims

__all__ = ["attack_explorer"]

PATIENCE = 20.0
"""Seconds within which half-open requests must be closed."""
REFUSED = range(400, 500)


@dataclass(frozen=True)
class Page:
    """A running explorer.

    Args:
        port: Its port.
        token: Token in its address.
        cookie: Cookie obtained with the token.
        log: File of its output.
    """

    port: int
    token: str
    cookie: str
    log: Path

    def ask(
        self, path: str, body: bytes | None = None, *, known: bool = True, **headers: str
    ) -> int:
        """Status of the response to a request, with the cookie if `known`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if known:
            named["Cookie"] = self.cookie
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, named)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def send(self, content: bytes, wait: float = PATIENCE) -> int:
        """Status of the response to raw bytes; 0 if the connection was closed without one."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as link:
            link.settimeout(wait)
            try:
                link.sendall(content)
                found = re.match(rb"HTTP/1\.1 (\d+)", link.recv(4096))
            except (ConnectionError, BrokenPipeError):
                return 0
            return int(found[1]) if found else 0


Case = Callable[[Page], bool]


def attack_explorer(victims: Victims, folder: Path) -> list[Tally]:
    """Try every case on an explorer of a folder of runs."""
    place = victims.copy(victims.trained, folder / "explored")
    tally = Tally("explorer")
    with _explorer(place) as page:
        for name, case in _cases():
            start = time.monotonic()
            trouble = ""
            try:
                held = case(page)
            except Exception as error:
                held, trouble = False, repr(error)
            alive = page.ask("/models") == 200
            text = page.log.read_text(errors="replace")
            code = 0 if alive else None
            log = text if TRACEBACK in text else trouble
            tally.add(name, Outcome(code, log, time.monotonic() - start, 0), held, "breaches")
            page.log.write_text("")
    return [tally]


def _cases() -> Iterator[tuple[str, Case]]:
    for path in ("/", "/models", "/models/0", "/static/explorer.js", "/models/0/images/0"):
        yield f"{path} without a token", _asked([403], path, known=False)
        yield f"{path} with another cookie", _with_another_cookie(path)
    for token in ("", "x", "%ff", "0" * 10_000):
        yield f"token {token:.5}", _asked(REFUSED, f"/?token={token}", known=False)
    yield "the token elsewhere", _with_the_token_elsewhere
    for name, content in _half_open().items():
        yield f"half-open: {name}", _sent([0, 400, 403, 408], content)
    for path, status in (("/models/0/encode", 413), ("/models/0/decode", 413), ("/nowhere", 404)):
        yield f"33 MB to {path}", _asked([status], path, bytes(33 << 20))
    for name, content in _malformed().items():
        yield f"malformed: {name}", _sent([0, *REFUSED], content)
    for path in (
        "/static/../../factors.csv", "/static/..%2f..%2ffactors.csv", "/style.css%00.png",
        "/models/-1", "/models/" + "9" * 5000, "/models/0/images/" + "9" * 5000,
    ):  # fmt: skip
        yield f"{path:.40}", _asked(REFUSED, path)
    for number, body in enumerate(_codes()):
        yield f"codes {number}", _asked([422], "/models/0/decode", body)
    for number, body in enumerate(_names()):
        yield f"names {number}", _asked([413, 422], "/models/0/names", body)
    for origin in ("http://evil.example", "null"):
        yield f"from {origin}", _asked([403], "/models/0/decode", b"{}", Origin=origin)
    for name, body in _images().items():
        yield f"image: {name}", _asked([413, 422], "/models/0/encode", body)
    yield "200 idle connections", _idle
    yield "200 requests at once", _many


def _asked(
    statuses: Container[int],
    path: str,
    body: bytes | None = None,
    known: bool = True,
    **headers: str,
) -> Case:
    """A request, and the statuses that its response may have."""
    return lambda page: page.ask(path, body, known=known, **headers) in statuses


def _sent(statuses: Container[int], content: bytes) -> Case:
    """Raw bytes to send, and the statuses that the response may have."""
    return lambda page: page.send(content) in statuses


def _with_another_cookie(path: str) -> Case:
    return lambda page: page.ask(path, known=False, Cookie=f"{page.cookie[:-3]}xyz") == 403


def _with_the_token_elsewhere(page: Page) -> bool:
    return page.ask(f"/models?token={page.token}", known=False) == 403


def _half_open() -> dict[str, bytes]:
    post = b"POST /models/0/decode HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    return {
        "nothing": b"",
        "half a line": b"GET / HT",
        "half a header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX",
        "no body": post + b"Content-Length: 30\r\n\r\n",
        "half a body": post + b"Content-Length: 30\r\n\r\n{",
        "half a chunk": post + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    }


def _malformed() -> dict[str, bytes]:
    host = b"Host: 127.0.0.1\r\n"
    post = b"POST /models/0/decode HTTP/1.1\r\n" + host
    return {
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        "no host": b"GET / HTTP/1.1\r\n\r\n",
        "another host": b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "two hosts": b"GET / HTTP/1.1\r\n" + host + b"Host: evil.example\r\n\r\n",
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "CONNECT": b"CONNECT evil.example:80 HTTP/1.1\r\n" + host + b"\r\n",
        "TRACE": b"TRACE / HTTP/1.1\r\n" + host + b"\r\n",
        "a header of 1 MB": b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * (1 << 20) + b"\r\n\r\n",
        "a negative length": post + b"Content-Length: -3\r\n\r\n",
        "a long length": post + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        "two lengths": post + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "no chunk size": post + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
        "noise": bytes((7 * k * k + 13) % 256 for k in range(5000)),
    }


def _codes() -> Iterator[bytes]:
    yield b"[" * 100_000
    yield b'{"codes": ' + b"[" * 100_000
    for value in ("NaN", "Infinity", "1e999", "9" * 4000, "null", '"x"', "[]", "{}"):
        yield f'{{"codes": [[{", ".join([value] * 10)}]]}}'.encode()
    yield b"\xff\xfe"
    yield json.dumps({"codes": [[0.0] * 3]}).encode()
    yield json.dumps({"codes": [[0.0] * 10] * 10_000}).encode()


def _names() -> Iterator[bytes]:
    yield b"[" * 100_000
    yield b"x" * (1 << 20)
    for latent in ("10", "-1", "../../x", "9" * 5000):
        yield json.dumps({"names": {latent: "size"}}).encode()
    for name in ("", "a\nb", "\x1b[31m", "\ud800", "x" * 1000, 3, None, {"0": "size"}):
        yield json.dumps({"names": {"0": name}}).encode()


def _images() -> dict[str, bytes]:
    def png(side: int) -> bytes:
        file = io.BytesIO()
        Image.new("1", (side, side)).save(file, "png")
        return file.getvalue()

    whole = png(64)
    return {
        "50 megapixels": png(7100),
        "400 megapixels": png(20_000),
        "truncated": whole[: len(whole) // 2],
        "a program": b"%!PS-Adobe-3.0 EPSF-3.0\n(x) run\n",
        "empty": b"",
    }


def _idle(page: Page) -> bool:
    links = [socket.create_connection(("127.0.0.1", page.port), 10) for _ in range(200)]
    try:
        return page.ask("/models") == 200
    finally:
        for link in links:
            link.close()


def _many(page: Page) -> bool:
    body = json.dumps({"codes": [[0.5] * 10]}).encode()
    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda _: page.ask("/models/0/decode", body), range(200)))
    return set(found) == {200}


@contextmanager
def _explorer(place: Path) -> Iterator[Page]:
    log = place / ".log"
    args = [sys.executable, "-m", "unweave", "explore", "runs", "--data", "images"]
    with log.open("wb") as output:
        served: subprocess.Popen[Any] = subprocess.Popen(
            [*args, "--size", "32", "--channels", "1", "--no-open"],
            cwd=place,
            stdout=output,
            stderr=output,
        )
    try:
        end = time.monotonic() + 60
        found = None
        while found is None and time.monotonic() < end:
            time.sleep(0.1)
            found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", log.read_text())
        if found is None:
            raise RuntimeError(f"the explorer did not start: {log.read_text()}")
        port, token = int(found[1]), found[2]
        with urllib.request.urlopen(found[0], timeout=30) as answer:
            cookie = answer.headers["Set-Cookie"].split(";")[0]
        yield Page(port, token, cookie, log)
    finally:
        served.kill()
        served.wait()
