"""The public names of the package."""

import subprocess
import sys

import pytest

import unweave as uw

ROOMS = ("data", "methods", "metrics", "quality", "select", "show", "study", "trackers")


def test_dir_lists_only_the_public_api():
    assert dir(uw) == sorted(uw.__all__)
    assert {"fit", "train", "load", "evaluate", "Unweaver", *ROOMS} <= set(dir(uw))


@pytest.mark.parametrize("room", ROOMS)
def test_dir_of_subpackages_lists_only_their_public_api(room):
    module = getattr(uw, room)
    assert dir(module) == sorted(module.__all__)
    for name in dir(module):
        getattr(module, name)


def test_dir_imports_nothing():
    code = "import sys, unweave; dir(unweave); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
