"""The Python code in the README and docs runs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if "```python" in path.read_text()
]


READER = """
import gc, os, sys
from pathlib import Path
from types import ModuleType
import matplotlib.backends.backend_agg, matplotlib.backends.backend_svg, matplotlib.figure
import numba, pandas, pyarrow.parquet, scipy.optimize, scipy.stats, sklearn.ensemble, torch
gc.freeze()  # a second per page, since the end of a process collects garbage in all modules
for line in sys.stdin:
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.chdir(line.rstrip())
    os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT), 1)
    os.dup2(1, 2)
    code = compile(Path("page.py").read_text(), "page.py", "exec")
    page = sys.modules["__main__"] = ModuleType("__main__")
    exec(code, vars(page))
    sys.exit()
"""


@pytest.fixture(scope="module")
def read():
    """Runs the page.py of a folder: its exit status, and what it said.

    Each has a process of its own, in which nothing of unweave is imported yet. It is forked from
    one that has imported what takes every page seconds.
    """
    command = [sys.executable, "-W", "error", "-c", READER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, bufsize=1, **pipes) as reader:

        def run(folder):
            reader.stdin.write(f"{folder}\n")
            status = int(reader.stdout.readline())
            return status, (folder / "said").read_text()

        yield run
        reader.stdin.close()


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """The smallest number of images that can be fitted, and a broken file."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for k in range(70):
        image = Image.fromarray(rng.integers(0, 256, (70, 90, 3), dtype=np.uint8))
        image.save(folder / f"img_{k:03}.png")
    (folder / "broken.png").write_bytes(b"no image")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, read, images, tmp_path):
    """Run all blocks of a page in order, next to a folder of images with one broken file."""
    shutil.copytree(images, tmp_path / "images")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    (tmp_path / "page.py").write_text(code)
    status, said = read(tmp_path)
    assert status == 0, said


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
def test_links_to_files_are_not_broken(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
