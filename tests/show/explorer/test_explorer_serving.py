"""The explorer as it is really served: a port, a browser, a command, a clean end."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing

import httpx
import numpy as np
import pytest

import unweave as uw
from unweave.cli import main
from unweave.errors import UnweaveError
from unweave.show.explorer.serving import running


def get(address):
    """As `httpx.get`, but a busy machine is waited for."""
    return httpx.get(address, timeout=60)


def raw_request(address, text):
    """What the server says to these very bytes."""
    port = int(re.search(r":(\d+)/", address)[1])
    with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as connection:
        text = text.replace("\r\n", "\r\nConnection: close\r\n", 1)
        connection.sendall(text.replace("PORT", str(port)).encode())
        return b"".join(iter(lambda: connection.recv(65_536), b"")).decode("latin-1")


def test_it_is_served_on_this_machine_only(address):
    assert address.startswith("http://127.0.0.1:")
    assert get(address).status_code == 200
    port = int(address.rstrip("/").rsplit(":", 1)[1])
    with pytest.raises(OSError, match="refused"):  # another address of this machine
        socket.create_connection(("127.0.0.2", port), timeout=5).close()


@pytest.mark.parametrize(
    "path", ["../../../secrets.txt", "..%2f..%2fsecrets.txt", "style.css/../../app.py", "/x"]
)
def test_paths_as_they_come_over_the_wire_lead_nowhere(address, path):
    said = raw_request(address, f"GET /{path} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n")
    assert said.startswith("HTTP/1.1 404")
    assert "nothing here" in said


def test_foreign_hosts_are_refused_over_the_wire(address):
    said = raw_request(address, "GET /models HTTP/1.1\r\nHost: evil.example:PORT\r\n\r\n")
    assert said.startswith("HTTP/1.1 421")
    assert "server:" not in said.lower().split("\r\n\r\n")[0]
    twice = "GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nHost: evil.example\r\n\r\n"
    assert re.match(r"HTTP/1\.1 4", raw_request(address, twice))


def test_a_long_upload_is_refused_before_it_is_sent(address):
    said = raw_request(
        address,
        "POST /models/0/encode HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n"
        "Content-Length: 99999999999\r\n\r\nx",
    )
    assert said.startswith("HTTP/1.1 413")


def test_a_round_trip_is_quick(address):
    """The best of 40, which other work on the machine does not change: 2 to 3 ms."""
    spent = []
    with httpx.Client(base_url=address, timeout=60) as client:
        client.get("/models/0")
        for k in range(40):
            start = time.perf_counter()
            client.post("/models/0/decode", json={"codes": [[k / 20 - 1] * 5]})
            spent.append(time.perf_counter() - start)
    assert min(spent) < 0.03


def test_a_taken_port_is_a_sentence(runs):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UnweaveError, match=f"port {port} is taken"), running(runs, port=port):
            pass
    with running(runs, port=port) as address:
        assert address == f"http://127.0.0.1:{port}/"
        assert get(address).status_code == 200
    with pytest.raises(httpx.ConnectError):
        get(address)
    with pytest.raises(UnweaveError, match="1 to 65535"), running(runs, port=70_000):
        pass


def test_models_in_memory_are_explored_with_the_data_given(colours):
    data, models = colours
    with running(models, data) as address:
        said = get(f"{address}models/1").json()
        assert (said["images"], said["shape"]) == (12, [32, 32, 3])
        answer = httpx.post(f"{address}models/1/decode", json={"codes": [[0, 1, -1]]}, timeout=60)
    expected = np.rint(models[1].decode([[0, 1, -1]]) * 255).astype(np.uint8)
    assert answer.content == expected.tobytes()
    assert callable(uw.show.explore)


def test_the_command_says_where_opens_the_browser_and_ends_with_a_line(runs, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened.new\n')
    browser.chmod(0o755)
    opened = tmp_path / "opened.new"
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
        address = re.search(r"http://127\.0\.0\.1:\d+/", line)[0]
        assert get(f"{address}models").json()["title"] == runs.name
        deadline = time.monotonic() + 60
        while not (opened.exists() and opened.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert opened.read_text() == address
    finally:
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=60)
    assert rest == "unweave: the explorer has ended\n"
    assert (out, process.returncode) == ("", 0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "there is no folder nowhere"),
        (["."], "holds no model"),
        (["RUNS", "--size", "64"], "--size says how to load --data"),
        (["RUNS", "--port", "0"], "a port is a number from 1 to 65535"),
        (["RUNS", "--data", "dsprits"], "did you mean 'dsprites'"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(
    words, sentence, runs, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["explore", "--no-open", *(str(runs) if word == "RUNS" else word for word in words)])
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert sentence in said
    assert said.startswith("unweave: ")
    assert said.count("\n") == 1


def test_the_command_has_help_with_an_example(capsys):
    with pytest.raises(SystemExit) as end:
        main(["explore", "--help"])
    said = capsys.readouterr().out
    assert end.value.code == 0
    assert "Example: unweave explore runs" in said
    assert "--no-open" in said
