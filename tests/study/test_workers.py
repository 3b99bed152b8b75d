"""Tokens of studies on Ray: tokens of killed drivers are removed, those of live ones stay."""

import os
import subprocess
import sys
import time

import pytest

from unweave.study.ledger import Ledger
from unweave.study.remote import RemoteStore
from unweave.study.running import prepare
from unweave.study.store import Store
from unweave.study.workers import DAY, TOKEN, Worker, new_token


def token_of(process, host=None, age=0.0):
    _, there, _, _, end = ["", *new_token().removeprefix(TOKEN).split("-")]
    there = new_token().removeprefix(TOKEN).split("-")[0] if host is None else host
    return f"{TOKEN}{there}-{process}-{int(time.time() - age)}-{end}"


@pytest.fixture(params=["folder", "url"])
def store(request, tmp_path):
    if request.param == "folder":
        return Store(tmp_path)
    return RemoteStore(f"file://{tmp_path / 'away'}", tmp_path)


def ended():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_tokens_of_killed_drivers_are_removed_by_the_next_run(store, small):
    mine, dead = token_of(os.getpid()), token_of(ended())
    far, long_gone = token_of(1, "0" * 8), token_of(1, "0" * 8, DAY + 60)
    first_edition = f"{TOKEN}{'ab' * 16}"
    for token in (mine, dead, far, long_gone, first_edition):
        store.write_token(token)
    assert sorted(store.dead_tokens()) == sorted([dead, long_gone, first_edition])
    prepare(store, small())
    assert sorted(store.tokens()) == sorted([mine, far])


def test_tokens_without_an_owner_stay_while_workers_are_active(tmp_path):
    store = Store(tmp_path)
    token = f"{TOKEN}{'ab' * 16}"
    store.write_token(token)
    Ledger(tmp_path / "ledger.sqlite").heartbeat(Worker.here())
    assert store.dead_tokens() == []
