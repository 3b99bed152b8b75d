"""Tests never touch the user's cache: each worker has one of its own."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """The folder that stands for the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["UNWEAVE_CACHE"] = str(folder)
    return folder
