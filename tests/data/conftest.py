"""Fixtures shared by the data set tests."""

from dataclasses import replace

import pytest

from unweave.data.catalog import DATASETS


@pytest.fixture
def publish(monkeypatch):
    """Return a function that replaces the published files of a data set and its variants."""

    def publish(name, *files):
        for each, entry in DATASETS.items():
            if entry.prepared == DATASETS[name].prepared:
                monkeypatch.setitem(DATASETS, each, replace(entry, files=files))

    return publish
