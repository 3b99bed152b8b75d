"""Tests never touch the user's cache, and each worker keeps to one core."""

import os

import pytest

# Two workers whose threads wait for each other are many times slower than one thread each.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """The folder that stands for the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["UNWEAVE_CACHE"] = str(folder)
    return folder
