"""The explorer served on a real port: connections, browser, command and shutdown."""

import io
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.request import Request, url2pathname, urlopen

import httpx
import numpy as np
import pytest
from PIL import Image

import unweave as uw
from tests.explorer.explorer_tools import opened
from tests.raising import about
from unweave.cli import main
from unweave.errors import UnweaveError
from unweave.explorer.connections import MAX_CONNECTIONS, PROGRESS_BYTES
from unweave.explorer.requests import IMAGE_BYTES
from unweave.explorer.serving import running


def parts_of(address):
    """Return the port and the token."""
    port, token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{43})", address).groups()
    return int(port), token


def connected(address):
    return closing(socket.create_connection(("127.0.0.1", parts_of(address)[0]), timeout=60))


def written(address, text):
    """Return the bytes of a request, with the cookie."""
    port, token = parts_of(address)
    text = text.replace("\r\n", f"\r\nCookie: unweave-explorer-{port}={token}\r\n", 1)
    return text.replace("PORT", str(port)).encode()


def rest_of(connection):
    """Read the response until the server closes the connection."""
    return b"".join(iter(lambda: connection.recv(65_536), b"")).decode("latin-1")


def raw_request(address, text):
    """Send exactly these bytes and return the response."""
    with connected(address) as connection:
        text = text.replace("\r\n", "\r\nConnection: close\r\n", 1)
        connection.sendall(written(address, text))
        return rest_of(connection)


def test_it_is_served_on_this_machine_only(address):
    with opened(address) as client:
        assert client.get("/").status_code == 200
    port, _ = parts_of(address)
    with pytest.raises(OSError, match="refused"):  # another address of this machine
        socket.create_connection(("127.0.0.2", port), timeout=5).close()


@pytest.mark.parametrize(
    "path", ["../../../secrets.txt", "..%2f..%2fsecrets.txt", "style.css/../../app.py", "/x"]
)
def test_raw_paths_are_not_found(address, path):
    said = raw_request(address, f"GET /{path} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n")
    assert said.startswith("HTTP/1.1 404")
    assert "not found" in said


def test_raw_requests_with_other_hosts_are_rejected(address):
    said = raw_request(address, "GET /models HTTP/1.1\r\nHost: evil.example:PORT\r\n\r\n")
    assert said.startswith("HTTP/1.1 421")
    assert "server:" not in said.lower().split("\r\n\r\n")[0]
    twice = "GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nHost: evil.example\r\n\r\n"
    assert re.match(r"HTTP/1\.1 4", raw_request(address, twice))


def test_a_large_upload_is_rejected_before_it_is_sent(address):
    said = raw_request(
        address,
        "POST /models/0/encode HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n"
        "Content-Length: 99999999999\r\n\r\nx",
    )
    assert said.startswith("HTTP/1.1 413")


@pytest.mark.parametrize(
    ("path", "status"), [("models/0/encode", 413), ("models/0/decode", 413), ("nowhere", 404)]
)
def test_large_uploads_get_a_response_and_no_reset(address, path, status):
    port, token = parts_of(address)
    cookie = {"Cookie": f"unweave-explorer-{port}={token}"}
    # The client requests that the connection be closed, and sends everything before reading.
    upload = Request(f"http://127.0.0.1:{port}/{path}", bytes(IMAGE_BYTES + 1), cookie)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urlopen(upload, timeout=60)
    assert refused.value.code == status
    assert "error" in json.load(refused.value)


POST = "POST /models/0/decode HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n"
HALF_OPEN = {
    "nothing": "",
    "half a line": "GET / HT",
    "half the headers": POST,
    "no body": f"{POST}Content-Length: 30\r\n\r\n",
    "half a body": f"{POST}Content-Length: 30\r\n\r\n{{",
    "half a chunked body": f"{POST}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "no body, where none is wanted": f"{POST}Content-Length: 30\r\n\r\n".replace("decode", "x"),
    "no body, after a whole request": (
        f"GET /style.css HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n{POST}Content-Length: 30\r\n\r\n"
    ),
    "half the headers, after a whole request": (
        f"GET /style.css HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n{POST}"
    ),
}


@pytest.fixture(scope="module")
def hasty(runs):
    """Serve an explorer with a timeout of 0.4 seconds."""
    with running(runs, timeout=0.4) as address:
        yield address


@pytest.mark.parametrize("sent", HALF_OPEN.values(), ids=HALF_OPEN.keys())
def test_incomplete_requests_time_out(hasty, sent, capfd):
    with connected(hasty) as connection:
        begun = time.monotonic()
        connection.settimeout(4)  # less than uvicorn's own timeout for idle connections
        connection.sendall(written(hasty, sent))
        with suppress(ConnectionResetError):
            rest_of(connection)
        assert time.monotonic() - begun > 0.3
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "start", ["GET / HTTP/1.1\r\nX-Slow: ", f"{POST}Content-Length: 999\r\n\r\n"]
)
def test_single_bytes_do_not_extend_the_timeout(hasty, start):
    def keep_sending():
        for _ in range(100):
            connection.sendall(b"a")
            time.sleep(0.05)

    with connected(hasty) as connection:
        connection.sendall(written(hasty, start))
        with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
            keep_sending()


def test_a_large_upload_may_take_longer_than_the_timeout(runs):
    pieces = 12
    head = POST.replace("decode", "encode") + f"Content-Length: {pieces * PROGRESS_BYTES}\r\n\r\n"
    with running(runs, timeout=1) as address, connected(address) as connection:
        connection.sendall(written(address, head))
        for _ in range(pieces):
            time.sleep(0.1)
            connection.sendall(bytes(PROGRESS_BYTES))
        assert connection.recv(65_536).startswith(b"HTTP/1.1 422")


def test_idle_connections_are_closed_for_new_ones(address, capfd):
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(address)) for _ in range(MAX_CONNECTIONS + 20)]
        for connection in idle[::2]:
            with suppress(OSError):  # the oldest are being closed already
                connection.sendall(b"GET / HT")
        with opened(address) as client:
            assert client.get("/models").status_code == 200
        for connection in idle[:20]:
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        idle[-1].settimeout(0.05)
        with pytest.raises(TimeoutError):
            idle[-1].recv(1)
    assert capfd.readouterr().err == ""


def test_a_flood_of_idle_connections_does_not_cut_off_a_browser(address):
    port, token = parts_of(address)

    def style():
        browser.request(
            "GET", "/style.css", headers={"Cookie": f"unweave-explorer-{port}={token}"}
        )
        answer = browser.getresponse()
        return answer.status, len(answer.read())

    with ExitStack() as stack, closing(HTTPConnection("127.0.0.1", port, timeout=60)) as browser:
        before = style()
        assert before[0] == 200
        connection = browser.sock
        idle = [stack.enter_context(connected(address)) for _ in range(MAX_CONNECTIONS + 20)]
        with suppress(ConnectionResetError):
            assert idle[0].recv(1) == b""  # the flood has arrived, and pushes out its own
        assert style() == before
        assert browser.sock is connection


@pytest.mark.parametrize(
    "text",
    [
        "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "CONNECT x:1 HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
        "TRACE / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
        "FOO / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
        "GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
        f"GET /models/{'9' * 5000} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
        f"{POST}Content-Length: -3\r\n\r\n",
        f"{POST}Content-Length: {'9' * 5000}\r\n\r\n",
        f"{POST}Content-Length: 3\r\nContent-Length: 4\r\n\r\n",
        f"{POST}Content-Type: text/plain\r\nOrigin: http://evil.example\r\n\r\n",
        f"{POST}Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
        f"{POST}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nZZ\r\n",
    ],
)
def test_malformed_requests_are_rejected_silently(address, text, capfd):
    assert re.match(r"HTTP/1\.1 4\d\d ", raw_request(address, text))
    assert capfd.readouterr().err == ""


def test_disconnecting_clients_are_not_errors(address, capfd):
    wrong = "POST /models/0/encode HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nExpect: 100-continue\r\n"
    for text in (
        f"{POST}Content-Length: 30\r\n\r\n{{",
        wrong + "Content-Length: 99999999\r\n\r\n",
    ):
        with connected(address) as connection:
            connection.sendall(written(address, text))
    # The response is sent before the body turns out to be malformed.
    wrong += "Transfer-Encoding: chunked\r\n\r\n"
    with connected(address) as connection, suppress(OSError):
        connection.sendall(written(address, wrong.replace("encode", "x")))
        assert connection.recv(65_536).startswith(b"HTTP/1.1 404")
        connection.sendall(b"ZZ\r\n\r\n")
        rest_of(connection)
    with opened(address) as client:
        assert client.get("/models").status_code == 200
    assert capfd.readouterr().err == ""


def test_stopping_during_an_upload_is_silent(runs, capfd):
    with ExitStack() as stack, running(runs) as address:
        connection = stack.enter_context(connected(address))
        connection.sendall(written(address, f"{POST}Content-Length: 30\r\n\r\n{{"))
        with opened(address):
            pass
    assert capfd.readouterr().err == ""


def test_simultaneous_images_use_the_memory_of_one(address):
    file = io.BytesIO()
    Image.new("RGBA", (2500, 2500), (9, 9, 9, 9)).save(file, "PNG", compress_level=1)

    def upload(_):
        return client.post("/models/0/encode", content=file.getvalue()).status_code

    def resident():
        return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1])

    with opened(address) as client, ThreadPoolExecutor(6) as threads:
        assert upload(0) == 200
        before = resident()
        assert list(threads.map(upload, range(6))) == [200] * 6
    assert resident() - before < 100_000  # kilobytes; an image has 25,000, and as many as a copy


def test_a_round_trip_is_quick(address):
    """The best of 40, which is independent of other load on the machine: 2 to 3 ms."""
    spent = []
    with opened(address) as client:
        client.get("/models/0")
        for k in range(40):
            start = time.perf_counter()
            client.post("/models/0/decode", json={"codes": [[k / 20 - 1] * 5]})
            spent.append(time.perf_counter() - start)
    assert min(spent) < 0.03


def test_a_port_in_use_is_an_error(runs):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UnweaveError, check=about("port", port)), running(runs, port=port):
            pass
    with running(runs, port=port) as address:
        assert parts_of(address)[0] == port
        with opened(address):
            pass
    with pytest.raises(httpx.ConnectError), opened(address):
        pass


def test_each_start_has_a_new_token(runs, address):
    port, _ = parts_of(address)
    with running(runs) as another:
        assert parts_of(another)[1] != parts_of(address)[1]
        stale = address.replace(f":{port}/", f":{parts_of(another)[0]}/")
        with pytest.raises(httpx.HTTPStatusError, match="403"), opened(stale):
            pass


def test_an_invalid_port_is_an_error(runs):
    with pytest.raises(UnweaveError, check=about("port", 70_000)), running(runs, port=70_000):
        pass


def test_models_in_memory_use_the_given_data(colours):
    data, models = colours
    with running(models, data) as address, opened(address) as client:
        about_model = client.get("models/1").json()
        assert (about_model["images"], about_model["shape"]) == (12, [32, 32, 3])
        answer = client.post("models/1/decode", json={"codes": [[0, 1, -1]]})
    expected = np.rint(models[1].decode([[0, 1, -1]]) * 255).astype(np.uint8)
    assert answer.content == expected.tobytes()
    assert callable(uw.show.explore)


def test_the_command_prints_the_address_and_opens_the_browser(runs, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened.new\n')
    browser.chmod(0o755)
    argument = tmp_path / "opened.new"
    command = [sys.executable, "-m", "unweave", "explore", str(runs)]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": f"{browser} %s"},
    )
    try:
        line = process.stderr.readline()
        address = re.search(r"http://\S+", line)[0]
        with opened(address) as client:
            assert client.get("models").json()["title"] == runs.name
        deadline = time.monotonic() + 60
        while not (argument.exists() and argument.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        # Other users can see the browser's arguments, so it gets a file that they cannot read.
        file = Path(url2pathname(argument.read_text().removeprefix("file://")))
        assert address in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    finally:
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=60)
    assert rest == "unweave: explorer stopped\n"
    assert (out, process.returncode) == ("", 0)
    assert not file.parent.exists()


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["nowhere"], "nowhere"),
        (["."], "."),
        (["RUNS", "--size", "64"], "--data"),
        (["RUNS", "--port", "0"], "from 1 to 65535"),
        (["RUNS", "--data", "dsprits"], "'dsprites'"),
    ],
)
def test_errors_are_one_line_with_exit_code_2(args, expected, runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["explore", "--no-open", *(str(runs) if arg == "RUNS" else arg for arg in args)])
    error = capsys.readouterr().err
    assert end.value.code == 2
    assert expected in error
    assert error.startswith("unweave: ")
    assert error.count("\n") == 1


def test_the_command_has_help_with_an_example(capsys):
    with pytest.raises(SystemExit) as end:
        main(["explore", "--help"])
    text = capsys.readouterr().out
    assert end.value.code == 0
    assert "Example: unweave explore zoo:rooms3d" in text
    assert "--no-open" in text
