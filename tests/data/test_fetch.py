import hashlib
import re
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from unweave.data import fetch as fetch_module
from unweave.data.fetch import RemoteFile, fetch
from unweave.errors import DataError, DownloadError

CONTENT = np.random.default_rng(0).bytes(300_000)
SIZE = len(CONTENT)
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT; the path says how badly."""

    def do_GET(self):
        manner = self.path.strip("/")
        wanted = self.headers.get("Range")
        self.server.requests.append((manner, wanted))
        if manner == "gone":
            self.send_error(404)
        elif manner == "corrupt":
            self.answer(200, CONTENT[:1000] + b"x" + CONTENT[1001:])
        elif manner == "short":
            self.answer(200, CONTENT[:-1])
        elif manner == "page":
            self.answer(200, b"<html>log in</html>", kind="text/html")
        elif manner == "no-range" or wanted is None:
            self.answer(200, CONTENT)
        else:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(CONTENT):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                span = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
                self.answer(206, CONTENT[start:], span)

    def answer(self, status, body, span=None, kind="application/octet-stream"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if span:
            self.send_header("Content-Range", span)
        self.end_headers()
        self.wfile.write(self.spoilt(body))

    def spoilt(self, body):
        if self.path == "/cut":
            return body[:100_000]
        if self.path == "/stall":
            self.wfile.write(body[:100_000])
            self.server.over.wait(10)
            return b""
        if self.path == "/slow":
            time.sleep(0.5)
        if self.path == "/dead":
            return b""
        return body

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests, server.over = [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    monkeypatch.setattr(fetch_module, "PAUSE", 0.0)
    monkeypatch.setattr(fetch_module, "TIMEOUT", 0.3)


def address(server, manner):
    return f"http://127.0.0.1:{server.server_port}/{manner}"


def remote(server, *manners, size=SIZE, md5=MD5):
    urls = tuple(address(server, manner) for manner in manners)
    return RemoteFile(name="data.bin", size=size, md5=md5, urls=urls)


def manners(server):
    return [manner for manner, _ in server.requests]


def test_downloads_once(server, tmp_path, capfd):
    file = remote(server, "good")
    path = fetch(file, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "data.bin"
    assert path.read_bytes() == CONTENT
    assert not path.with_name("data.bin.part").exists()
    assert fetch(file, path.parent) == path
    assert manners(server) == ["good"]
    assert capfd.readouterr() == ("", "")


def test_unknown_size_and_checksum(server, tmp_path):
    path = fetch(remote(server, "cut", size=None, md5=None), tmp_path)
    assert path.read_bytes() == CONTENT


def test_goes_on_where_the_connection_was_cut(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch_module, "FRUITLESS_TRIES", 1)  # and none of these is fruitless
    assert fetch(remote(server, "cut"), tmp_path).read_bytes() == CONTENT
    ranges = [None, "bytes=100000-", "bytes=200000-"]
    assert server.requests == [("cut", wanted) for wanted in ranges]


def test_goes_on_where_the_connection_fell_silent(server, tmp_path):
    started = time.monotonic()
    assert fetch(remote(server, "stall"), tmp_path).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests][:2] == [None, "bytes=100000-"]
    assert time.monotonic() - started < 5


def test_goes_on_from_an_earlier_part(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:1234])
    assert fetch(remote(server, "good"), tmp_path).read_bytes() == CONTENT
    assert server.requests == [("good", "bytes=1234-")]


def test_restarts_where_ranges_are_ignored(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(b"\0" * 1234)
    assert fetch(remote(server, "no-range"), tmp_path).read_bytes() == CONTENT
    assert manners(server) == ["no-range"]


@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_a_complete_part_is_enough(server, tmp_path, size):
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    assert fetch(remote(server, "good", size=size), tmp_path).read_bytes() == CONTENT
    assert len(server.requests) == (size is None)


@pytest.mark.parametrize("length", [10, len(CONTENT), len(CONTENT) + 10])
def test_a_wrong_part_is_replaced(server, tmp_path, length):
    (tmp_path / "data.bin.part").write_bytes(b"\0" * length)
    assert fetch(remote(server, "good"), tmp_path).read_bytes() == CONTENT
    assert server.requests[-1] == ("good", None)


@pytest.mark.parametrize("bad", ["corrupt", "gone", "page", "dead", "short"])
@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_next_mirror(server, tmp_path, bad, size):
    assert fetch(remote(server, bad, "good", size=size), tmp_path).read_bytes() == CONTENT
    assert manners(server)[0] == bad
    assert manners(server)[-1] == "good"


def test_a_web_page_is_never_the_file(server, tmp_path):
    file = remote(server, "page", "good", size=None, md5=None)
    assert fetch(file, tmp_path).read_bytes() == CONTENT


def closed_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def test_unreachable_mirror(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch_module, "PAUSE", 60.0)  # there is nothing to wait for
    urls = (f"http://127.0.0.1:{closed_port()}/data.bin", address(server, "good"))
    file = RemoteFile(name="data.bin", size=len(CONTENT), md5=MD5, urls=urls)
    assert fetch(file, tmp_path).read_bytes() == CONTENT


def test_nothing_works(server, tmp_path):
    unreachable = f"http://127.0.0.1:{closed_port()}/data.bin"
    urls = (unreachable, address(server, "gone"), address(server, "corrupt"))
    file = RemoteFile(name="data.bin", size=len(CONTENT), md5=MD5, urls=urls)
    with pytest.raises(DownloadError) as caught:
        fetch(file, tmp_path)
    message = str(caught.value)
    for part in ("data.bin", "300,000 bytes", MD5, str(tmp_path), "404", "put it into"):
        assert part in message
    assert "\n" not in message
    assert not (tmp_path / "data.bin").exists()


def test_what_was_received_is_kept_for_the_next_time(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch_module, "FRUITLESS_TRIES", 1)
    with pytest.raises(DownloadError, match="broke off"):
        fetch(remote(server, "dead"), tmp_path)
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:5])
    with pytest.raises(DownloadError):
        fetch(remote(server, "gone"), tmp_path)
    assert (tmp_path / "data.bin.part").read_bytes() == CONTENT[:5]


def test_no_address(tmp_path):
    with pytest.raises(DownloadError, match="size unknown, md5 unknown"):
        fetch(RemoteFile(name="data.bin"), tmp_path)


def test_a_file_put_there_by_hand(tmp_path):
    (tmp_path / "data.bin").write_bytes(CONTENT)
    assert fetch(RemoteFile(name="data.bin", md5=MD5), tmp_path) == tmp_path / "data.bin"


@pytest.mark.parametrize("content", [CONTENT[:-1], b"x" + CONTENT[1:]])
def test_a_wrong_file_put_there_by_hand(tmp_path, content):
    (tmp_path / "data.bin").write_bytes(content)
    with pytest.raises(DownloadError, match=r"is not the published data\.bin"):
        fetch(RemoteFile(name="data.bin", size=len(CONTENT), md5=MD5), tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == content


def test_checked_once_until_it_changes(tmp_path, monkeypatch):
    path = tmp_path / "data.bin"
    path.write_bytes(CONTENT)
    file = RemoteFile(name="data.bin", md5=MD5)
    fetch(file, tmp_path)
    with monkeypatch.context() as unable_to_hash:
        unable_to_hash.setattr(fetch_module, "_fault", None)
        fetch(file, tmp_path)
    path.write_bytes(CONTENT[::-1])
    with pytest.raises(DownloadError, match="md5"):
        fetch(file, tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot write"):
        fetch(RemoteFile(name="data.bin"), tmp_path / "file")


def test_two_processes_at_once(server, tmp_path):
    program = (
        "import sys; from pathlib import Path; from unweave.data.fetch import RemoteFile, fetch; "
        f"file = RemoteFile(name='data.bin', md5='{MD5}', urls=('{address(server, 'slow')}',)); "
        "fetch(file, Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(30) for process in processes] == [0, 0, 0]
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert manners(server) == ["slow"]
