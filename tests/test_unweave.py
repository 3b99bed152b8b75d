"""What the package offers at a glance."""

import subprocess
import sys

import pytest

import unweave as uw

ROOMS = ("data", "methods", "metrics", "quality", "select", "show", "study")


def test_completion_shows_the_api_and_nothing_else():
    assert dir(uw) == sorted(uw.__all__)
    assert {"fit", "train", "load", "evaluate", "Unweaver", *ROOMS} <= set(dir(uw))


@pytest.mark.parametrize("room", ROOMS)
def test_so_it_does_for_every_room(room):
    module = getattr(uw, room)
    assert dir(module) == sorted(module.__all__)
    for name in dir(module):
        getattr(module, name)


def test_looking_imports_nothing():
    code = "import sys, unweave; dir(unweave); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
