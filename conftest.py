"""Tests never touch the user's cache, and each worker keeps to one core."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

# Two workers whose threads wait for each other are many times slower than one thread each.
os.environ["OMP_NUM_THREADS"] = "1"

import torch

# Without a GPU its kernels run in Triton's interpreter, which must be said before their import.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Where there is no Triton, nothing about its kernels can be imported.
collect_ignore_glob = [] if find_spec("triton") else ["*gpu*.py"]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """The folder that stands for the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["UNWEAVE_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def device():
    """Where the kernels for a GPU are tested: on one, or else in Triton's interpreter."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="session")
def catches():
    """Says whether a process has a handler for a signal: for SIGTERM, while it trains."""

    def has_handler(process, number):
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        masks = dict(line.split(":", 1) for line in lines)
        return bool(int(masks.get("SigCgt", "0"), 16) >> (number - 1) & 1)

    return has_handler


@pytest.fixture(scope="session")
def chromium():
    """A browser without a window; what needs it is left out where there is none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium")
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=quiet)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """A page that fails its test where the console shows an error, or a script throws one."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    yield page
    context.close()
    assert not errors, errors
