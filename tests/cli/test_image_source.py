"""`source.json`: replaced if damaged, and folders are searched within limits."""

import json
import os
from pathlib import Path

import datasets
import pytest

from tests.raising import about
from unweave.cli import image_source
from unweave.cli.image_source import SOURCE, record_source, recorded_source
from unweave.errors import DataError


@pytest.fixture
def fit(tmp_path):
    """The folder of a fit, next to its images."""
    for name in ("fit", "images"):
        (tmp_path / name).mkdir()
    return tmp_path / "fit"


@pytest.mark.parametrize("before", [None, "pipe", b"\xff\xfe", b"{", b"[" * 100_000])
def test_a_damaged_file_is_replaced(fit, before):
    if before == "pipe":
        os.mkfifo(fit / SOURCE)
    elif before is not None:
        (fit / SOURCE).write_bytes(before)
    record_source(fit, str(fit.parent / "images"), {"size": 32})
    assert recorded_source(fit) == (fit.parent / "images", {"size": 32})


def test_names_that_are_not_utf8_are_supported(fit):
    images = fit.parent / os.fsdecode(b"caf\xe9")
    images.mkdir()
    record_source(fit, str(images), {})
    assert recorded_source(fit) == (images, {})


@pytest.mark.parametrize("bound", ["MAX_FILES", "SEARCH_SECONDS"])
def test_a_folder_that_takes_too_long_to_search_is_an_error(fit, monkeypatch, bound):
    (fit.parent / "images" / "more").mkdir()
    (fit / SOURCE).write_text(json.dumps({"source": "../images", "options": {}}))
    monkeypatch.setattr(image_source, bound, -1)
    with pytest.raises(DataError, check=about(fit.parent / "images")):
        recorded_source(fit)


def test_columns_of_a_saved_data_set_are_recorded_by_name(fit):
    """And only of one: a name of a file is never recorded as text."""
    columns = fit.parent / "columns"
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict({"label": [0, 1]}).save_to_disk(columns)
    record_source(fit, str(columns), {"factors": Path("label,size")})
    assert recorded_source(fit) == (columns, {"factors": "label,size"})
    table = fit.parent / "table.csv"
    table.write_text("label\n0\n1\n")
    record_source(fit, str(columns), {"factors": table})
    source, options = recorded_source(fit)
    assert (source, options["factors"].resolve()) == (columns, table)
    (fit / SOURCE).write_text(json.dumps({"source": "../images", "options": {"factors": "label"}}))
    with pytest.raises(DataError, check=about(fit / SOURCE)):
        recorded_source(fit)
