import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unweave as uw

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPT = """
import os  # before the markers

# user: begin
import numpy as np

# a comment
values = [
    1,  # a comment at the end of a line
]
# user: pause
measure()
# user: resume
for value in values:
    # user: pause
    measure()
    # user: resume
    print(value)
# user: end
print("after")
"""


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def peers():
    return load(BENCHMARKS / "peers.py")


@pytest.fixture(scope="module")
def turns():
    return load(BENCHMARKS / "peers" / "turns.py")


def test_only_user_lines_are_counted(peers):
    assert peers.lines_written(SCRIPT) == 6
    assert peers.lines_written(SCRIPT.replace("# user: begin", "")) == 2


@pytest.mark.parametrize("script", sorted((BENCHMARKS / "peers").glob("with_*.py")))
def test_every_script_has_its_markers_in_order(peers, script):
    marks = [
        line.strip().removeprefix("# user: ")
        for line in script.read_text().splitlines()
        if line.strip().startswith("# user: ")
    ]
    assert (marks[0], marks[-1]) == ("begin", "end")
    assert marks[1:-1] == ["pause", "resume"] * (len(marks[1:-1]) // 2)
    assert peers.lines_written(script.read_text()) > 5


def test_export_is_in_the_order_of_the_published_file(peers, tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "CHUNK", 100)  # several chunks, the last of them short
    data = uw.data.load("dsprites").slice(scale=[0, 5], orientation=0, posX=range(0, 32, 4))
    peers.export_images(data, tmp_path / "images.npy")
    images = np.load(tmp_path / "images.npy", mmap_mode="r")
    assert images.shape == (3 * 2 * 8 * 32, 64, 64, 1)
    assert images.dtype == np.uint8
    assert set(np.unique(images)) == {0, 255}
    position = np.ravel_multi_index((2, 1, 0, 3, 17), (3, 2, 1, 8, 32))  # posY fastest
    wanted = uw.data.load("dsprites")
    index = wanted.index([[2, 5, 0, 12, 17]])
    np.testing.assert_array_equal(images[position], wanted.images(index)[0])
    assert not (tmp_path / "images.partial").exists()


def test_scored_images_are_a_full_grid(peers):
    data = uw.data.load("dsprites")
    factors = data.factors(data.only(**peers.GRID).support)
    sizes = [len(np.unique(column)) for column in factors.T]
    assert sizes == [3, 6, 10, 16, 16]
    assert len(np.unique(factors, axis=0)) == len(factors) == np.prod(sizes)


def test_scores_distinguish_a_good_code_from_noise(peers):
    rng = np.random.default_rng(0)
    factors = np.stack(np.meshgrid(*map(np.arange, (3, 6, 10, 8)), indexing="ij"), -1)
    factors = factors.reshape(-1, 4)
    good = peers.score(factors + 0.1 * rng.normal(size=factors.shape), factors)
    noise = peers.score(rng.normal(size=factors.shape), factors)
    assert list(good) == ["mig", "dci", "sap", "factor_vae"]
    assert good["mig"] > 0.9
    assert good["dci"] > 0.9
    assert good["factor_vae"] == 1
    assert all(good[name] > noise[name] + 0.2 for name in good)


def test_turns_report_their_steps_and_wait(turns, monkeypatch, capsys):
    answers = iter(["go\n", "go\n", ""])
    monkeypatch.setattr(turns.sys.stdin, "readline", lambda: next(answers), raising=False)
    taking = turns.Turns(3)
    for _ in range(7):
        taking.step()
    reports = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert [(report[0], int(report[3])) for report in reports] == [("turn", 3)] * 2
    assert all(float(report[1]) > 0 for report in reports)
    with pytest.raises(SystemExit, match="ended"):
        [taking.step() for _ in range(2)]


def test_turns_are_read_between_progress_bars(peers, tmp_path):
    script = "print('Epoch 0: 50%', end=''); print('\\nturn 2.0 1.0 40'); print('the end')"
    entry = peers.Entry(name="eight", script="", models=8)
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        worker = peers.Worker(entry, process, tmp_path / "log", tmp_path / "out.npy")
        assert worker.read() == (6.25, 3.125)  # seconds per 1,000 of 320 model-steps
        assert worker.read() is None


def test_spread_is_median_and_quartiles(peers):
    assert peers.spread([5.0, 1, 2, 3, 4, 6, 7]) == {"median": 4, "low": 2, "high": 6}
