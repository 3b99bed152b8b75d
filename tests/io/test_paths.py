"""What can be read and written, known before the work."""

import os
from pathlib import Path

import pytest

from unweave.errors import DataError
from unweave.io.paths import (
    check_file,
    check_folder,
    check_free,
    check_out,
    check_room,
    refuse_inner_links,
)
from unweave.io.writing import whole_file

LONG = "x" * 300


@pytest.fixture
def here(tmp_path):
    (tmp_path / "file").write_text("a file")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "there.csv").write_text("keep me")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "there is no file"),
        ("file/inside", "there is no file"),
        ("folder.csv", "is a folder"),
        ("pipe", "pipe or a device"),
        ("/dev/zero", "pipe or a device"),
        ("loop", "cannot read"),
        (LONG, "File name too long"),
        ("nul\0", "cannot read"),
    ],
)
def test_only_regular_files_are_read(here, name, message):
    check_file(here / "file")
    with pytest.raises(DataError, match=message):
        check_file(here / name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("there.csv", "already there"),
        ("folder.csv", "is a folder"),
        ("name.txt", r"ends in \.csv or \.parquet"),
        ("missing/name.csv", "there is no folder"),
        ("file/name.csv", "there is no folder"),
        ("loop/name.csv", "there is no folder"),
        (f"{LONG}.csv", "File name too long"),
        ("x" * 246 + ".csv", "File name too long"),
        ("nul\0.csv", "cannot write|no folder"),
        (os.fsdecode(b"caf\xe9.csv"), "not UTF-8"),
        ("/proc/name.csv", "cannot write into"),
    ],
)
def test_files_that_cannot_be_written(here, name, message):
    with pytest.raises(DataError, match=message):
        check_out(here / name, (".csv", ".parquet"), overwrite=False)
    assert (here / "there.csv").read_text() == "keep me"


def test_files_that_can_be_written_leave_no_trace_of_the_check(here):
    before = sorted(here.iterdir())
    for name in ("new.csv", "new.CSV", "x" * 236 + ".csv"):
        check_out(here / name, (".csv", ".parquet"), overwrite=False)
        assert sorted(here.iterdir()) == before
        with whole_file(here / name) as temporary:
            temporary.write_text("1")
        (here / name).unlink()
    check_out(here / "there.csv", (".csv",), overwrite=True)
    check_out(None, (".csv",), overwrite=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("file", "is a file, not a folder"),
        ("file/deeper/still", "is a file, not a folder"),
        ("pipe", "is a file, not a folder"),
        ("loop", "leads nowhere|links"),
        ("loop/inside", "leads nowhere|links"),
        (LONG, "File name too long"),
        ("/".join(["x" * 200] * 30), "File name too long"),
        ("nul\0", "cannot write"),
        (os.fsdecode(b"caf\xe9"), "not UTF-8"),
        ("/proc/folder", "cannot write into"),
    ],
)
def test_folders_that_cannot_be_made(here, name, message):
    with pytest.raises(DataError, match=message):
        check_folder(here / name)
    with pytest.raises(DataError, match=message):
        check_free([here / name / "a.csv"], overwrite=True)


def test_folders_that_can_be_made_are_not_made_yet(here):
    check_folder(here / "new" / "deeper")
    check_free([here / "new" / "a.csv", here / "new" / "b.csv"], overwrite=False)
    assert not (here / "new").exists()


def test_room_is_looked_for_on_the_disk_of_the_folder(here):
    check_room(here / "new" / "deeper", 1e3, "2 models")
    with pytest.raises(DataError, match=r"2 models need about 1e\+09 GB"):
        check_room(here / "new" / "deeper", 1e18, "2 models")
    check_room(Path("new"), 1e3, "1 model")


def test_links_within_a_folder_are_refused_and_the_folder_itself_may_be_one(tmp_path):
    (tmp_path / "study" / "runs").mkdir(parents=True)
    (tmp_path / "link").symlink_to("study")
    refuse_inner_links(tmp_path / "link", ("runs", "missing"))
    (tmp_path / "study" / "best").symlink_to("nowhere")
    with pytest.raises(DataError, match="best is a symbolic link"):
        refuse_inner_links(tmp_path / "link", ("runs", "best"))
    (tmp_path / "study" / "runs" / "one").symlink_to(tmp_path)
    with pytest.raises(DataError, match="one is a symbolic link"):
        refuse_inner_links(tmp_path / "study", ("runs",))
