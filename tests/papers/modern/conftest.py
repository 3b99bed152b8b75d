"""A small study, trained once."""

import pytest

import unweave as uw
from tests.papers.modern.tiny import STUDY
from unweave.papers.modern import comparison


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """The folder of a small study, its table, and the extended table."""
    folder = tmp_path_factory.mktemp("study")
    table = uw.study.run(STUDY, folder, scorers=0, progress=False).table
    return folder, table, comparison.extend(table, folder)
