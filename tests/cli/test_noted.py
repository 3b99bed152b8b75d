"""Where the images of a fit are: written again where it is damaged, searched only so far."""

import json
import os

import pytest

from unweave.cli import noted
from unweave.cli.noted import SOURCE, noted_source, write_source
from unweave.errors import DataError


@pytest.fixture
def fit(tmp_path):
    """The folder of a fit, beside its images."""
    for name in ("fit", "images"):
        (tmp_path / name).mkdir()
    return tmp_path / "fit"


@pytest.mark.parametrize("before", [None, b"\xff\xfe", b"{", b"[" * 100_000])
def test_a_damaged_note_is_written_again(fit, before):
    if before is not None:
        (fit / SOURCE).write_bytes(before)
    write_source(fit, str(fit.parent / "images"), {"size": 32})
    assert noted_source(fit) == (fit.parent / "images", {"size": 32})


def test_a_pipe_in_place_of_a_note_is_replaced(fit):
    os.mkfifo(fit / SOURCE)
    write_source(fit, str(fit.parent / "images"), {})
    assert noted_source(fit) == (fit.parent / "images", {})


def test_names_that_are_not_utf8_are_found_again(fit):
    images = fit.parent / os.fsdecode(b"caf\xe9")
    images.mkdir()
    write_source(fit, str(images), {})
    assert noted_source(fit) == (images, {})


@pytest.mark.parametrize("bound", ["MOST_FILES", "SEARCH_SECONDS"])
def test_a_folder_that_takes_long_to_search_is_refused(fit, monkeypatch, bound):
    (fit.parent / "images" / "more").mkdir()
    (fit / SOURCE).write_text(json.dumps({"source": "../images", "options": {}}))
    monkeypatch.setattr(noted, bound, -1)
    with pytest.raises(DataError, match="name the images with --data"):
        noted_source(fit)
