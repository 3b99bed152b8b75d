import hashlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from tests.raising import about
from unweave.data import fetch as fetch_module
from unweave.data.catalog import RemoteFile
from unweave.data.fetch import fetch
from unweave.errors import DataError, DownloadError

CONTENT = np.random.default_rng(0).bytes(300_000)
SIZE = len(CONTENT)
MD5 = hashlib.md5(CONTENT).hexdigest()

HOSTILE = {
    "endless": (200, {}),
    "vast": (200, {"Content-Length": str(1 << 60)}),
    "odd-length": (200, {"Content-Length": "lots"}),
    "no-such-part": (416, {"Content-Range": "bytes */0"}),
}
"""Malicious server responses: status and headers."""


class Handler(BaseHTTPRequestHandler):
    """Server of CONTENT; the path selects the kind of failure."""

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
        elif manner in HOSTILE or manner.startswith("to="):
            self.be_hostile(manner)
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

    def be_hostile(self, manner):
        status, headers = HOSTILE.get(manner) or (302, {"Location": manner.removeprefix("to=")})
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if status == 200:
            self.drip(CONTENT, 100 if manner == "endless" else 1)

    def answer(self, status, body, span=None, kind="application/octet-stream"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if span:
            self.send_header("Content-Range", span)
        self.end_headers()
        self.wfile.write(self.spoilt(body))

    def drip(self, body, times):
        """Send the same block repeatedly, or until the client disconnects."""
        with suppress(ConnectionError):
            for _ in range(times):
                self.wfile.write(body)
                self.server.sent += len(body)

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
    server.requests, server.over, server.sent = [], threading.Event(), 0
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


def remote(server, *manners, size=SIZE, md5=MD5, limit=2 * SIZE):
    urls = tuple(address(server, manner) for manner in manners)
    return RemoteFile(name="data.bin", size=size, md5=md5, urls=urls, limit=limit)


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


def test_resumes_after_an_interrupted_connection(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch_module, "MAX_FAILURES", 1)  # every attempt makes progress
    assert fetch(remote(server, "cut"), tmp_path).read_bytes() == CONTENT
    ranges = [None, "bytes=100000-", "bytes=200000-"]
    assert server.requests == [("cut", wanted) for wanted in ranges]


def test_resumes_after_a_timeout(server, tmp_path):
    started = time.monotonic()
    assert fetch(remote(server, "stall"), tmp_path).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests][:2] == [None, "bytes=100000-"]
    assert time.monotonic() - started < 5


def test_resumes_an_earlier_partial_download(server, tmp_path):
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


def test_all_mirrors_fail(server, tmp_path):
    unreachable = f"http://127.0.0.1:{closed_port()}/data.bin"
    urls = (unreachable, address(server, "gone"), address(server, "corrupt"))
    file = RemoteFile(name="data.bin", size=len(CONTENT), md5=MD5, urls=urls)
    with pytest.raises(DownloadError) as caught:
        fetch(file, tmp_path)
    message = str(caught.value)
    for part in ("data.bin", "300,000 bytes", MD5, str(tmp_path), "404"):
        assert part in message
    assert "\n" not in message
    assert not (tmp_path / "data.bin").exists()


def test_partial_downloads_are_kept(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch_module, "MAX_FAILURES", 1)
    with pytest.raises(DownloadError, check=about(tmp_path / "data.bin")):
        fetch(remote(server, "dead"), tmp_path)
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:5])
    with pytest.raises(DownloadError):
        fetch(remote(server, "gone"), tmp_path)
    assert (tmp_path / "data.bin.part").read_bytes() == CONTENT[:5]


def test_no_address(tmp_path):
    with pytest.raises(DownloadError, check=about(tmp_path / "data.bin")):
        fetch(RemoteFile(name="data.bin"), tmp_path)


def test_a_file_copied_by_hand(tmp_path):
    (tmp_path / "data.bin").write_bytes(CONTENT)
    assert fetch(RemoteFile(name="data.bin", md5=MD5), tmp_path) == tmp_path / "data.bin"


@pytest.mark.parametrize("content", [CONTENT[:-1], b"x" + CONTENT[1:]])
def test_a_wrong_file_copied_by_hand(tmp_path, content):
    (tmp_path / "data.bin").write_bytes(content)
    with pytest.raises(DownloadError, check=about(tmp_path / "data.bin")):
        fetch(RemoteFile(name="data.bin", size=len(CONTENT), md5=MD5), tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == content


def test_checked_once_until_it_changes(tmp_path, monkeypatch):
    path = tmp_path / "data.bin"
    path.write_bytes(CONTENT)
    file = RemoteFile(name="data.bin", md5=MD5)
    fetch(file, tmp_path)
    with monkeypatch.context() as unable_to_hash:
        unable_to_hash.setattr(fetch_module, "sums_of", None)
        fetch(file, tmp_path)
    path.write_bytes(CONTENT[::-1])
    with pytest.raises(DownloadError, match=MD5):
        fetch(file, tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=re.escape(str(tmp_path / "file"))):
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


def tofu(server, *manners):
    """A file without a published size or checksum (trust on first use)."""
    return remote(server, *manners, size=None, md5=None)


def test_the_first_download_pins_the_content_without_a_published_checksum(server, tmp_path):
    path = fetch(tofu(server, "good"), tmp_path)
    path.write_bytes(CONTENT[::-1])
    with pytest.raises(DownloadError, match=hashlib.sha256(CONTENT).hexdigest()):
        fetch(tofu(server, "good"), tmp_path)
    path.unlink()
    with pytest.raises(DownloadError, match=hashlib.sha256(CONTENT).hexdigest()):
        fetch(tofu(server, "corrupt"), tmp_path)
    assert fetch(tofu(server, "corrupt", "good"), tmp_path).read_bytes() == CONTENT


def test_a_file_copied_by_hand_is_pinned_at_first_use(tmp_path):
    (tmp_path / "data.bin").write_bytes(CONTENT)
    fetch(RemoteFile(name="data.bin"), tmp_path)
    (tmp_path / "data.bin").write_bytes(CONTENT[1:])
    with pytest.raises(DownloadError, match=hashlib.sha256(CONTENT).hexdigest()):
        fetch(RemoteFile(name="data.bin"), tmp_path)


def test_damage_with_unchanged_mtime_is_found_in_a_small_file(server, tmp_path):
    path = fetch(remote(server, "good"), tmp_path)
    status = path.stat()
    path.write_bytes(CONTENT[:1000] + b"x" + CONTENT[1001:])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(DownloadError, match=MD5):
        fetch(remote(server, "good"), tmp_path)


@pytest.mark.parametrize("size", [None, SIZE])
@pytest.mark.parametrize("bad", ["endless", "vast"])
def test_a_server_that_sends_too_much_is_abandoned(server, tmp_path, bad, size):
    file = remote(server, bad, "good", size=size, md5=None)
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    assert server.sent < 60 * SIZE
    assert not (tmp_path / "data.bin.part").exists()


def test_a_file_above_its_size_limit_is_rejected(server, tmp_path):
    with pytest.raises(DownloadError, match="300,000"):
        fetch(remote(server, "good", size=None, md5=None, limit=SIZE - 1), tmp_path)
    assert fetch(remote(server, "good", size=None, md5=None, limit=SIZE), tmp_path).exists()


def test_an_unexpected_range_error(server, tmp_path):
    assert fetch(tofu(server, "no-such-part", "good"), tmp_path).read_bytes() == CONTENT


def test_an_invalid_content_length(server, tmp_path):
    assert fetch(tofu(server, "odd-length"), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("place", ["data.bin", "data.bin.part", ".data.bin.lock", ".data.bin.sum"])
@pytest.mark.parametrize("there", [True, False])
def test_links_placed_in_advance_are_not_followed(server, tmp_path, place, there):
    victim = tmp_path / "victim"
    if there:
        victim.write_bytes(b"precious")
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / place).symlink_to(victim)
    with pytest.raises(DataError, match=re.escape(str(folder))):
        fetch(remote(server, "good"), folder)
    assert victim.exists() == there
    assert not there or victim.read_bytes() == b"precious"


def test_the_record_of_version_0_1_is_removed_but_not_its_link_target(server, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / ".data.bin.checked").symlink_to(victim)
    assert fetch(remote(server, "good"), folder).read_bytes() == CONTENT
    assert victim.read_bytes() == b"precious"
    assert sorted(path.name for path in folder.iterdir()) == [
        ".data.bin.lock",
        ".data.bin.sum",
        "data.bin",
    ]


def test_a_hard_linked_partial_file_is_not_written_to(server, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(CONTENT[:100])
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "data.bin.part").hardlink_to(victim)
    assert fetch(remote(server, "good"), folder).read_bytes() == CONTENT
    assert victim.read_bytes() == CONTENT[:100]


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,hello", "gopher://x", "http://[bad"],
)
def test_redirects_are_limited_to_http_and_https(server, tmp_path, target):
    with pytest.raises(DownloadError):
        fetch(tofu(server, f"to={target}"), tmp_path)
    assert not (tmp_path / "data.bin").exists()
    there = address(server, "good")
    assert fetch(tofu(server, f"to={there}"), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("scheme", ["file", "ftp", "data"])
def test_addresses_are_limited_to_http_and_https(tmp_path, scheme):
    (tmp_path / "source").write_bytes(CONTENT)
    file = RemoteFile(name="data.bin", urls=(f"{scheme}://{tmp_path}/source",))
    with pytest.raises(DownloadError):
        fetch(file, tmp_path / "cache")
