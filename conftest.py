"""Tests never touch the user's cache, and each worker keeps to one core."""

import os
from importlib.util import find_spec

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
