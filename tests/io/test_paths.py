"""Checks of paths before any work starts."""

import errno
import os
from pathlib import Path
from unittest.mock import ANY

import pytest

from tests.raising import about
from unweave.errors import DataError
from unweave.io.paths import (
    DEVICE,
    FILE,
    FOLDER,
    LINK,
    check_disk_space,
    check_file,
    check_folder,
    check_free,
    check_out,
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
    ("name", "there"),
    [
        ("missing", None),
        ("file/inside", None),
        ("folder.csv", FOLDER),
        ("pipe", DEVICE),
        ("/dev/zero", DEVICE),
        ("loop", errno.ELOOP),
        (LONG, errno.ENAMETOOLONG),
        ("nul\0", None),
    ],
)
def test_only_regular_files_are_read(here, name, there):
    check_file(here / "file")
    with pytest.raises(DataError, check=about(here / name, there)):
        check_file(here / name)


@pytest.mark.parametrize(
    ("name", "path", "there"),
    [
        ("there.csv", "there.csv", FILE),
        ("folder.csv", "folder.csv", FOLDER),
        ("name.txt", "name.txt", ".txt"),
        ("missing/name.csv", "missing", None),
        ("file/name.csv", "file", None),
        ("loop/name.csv", "loop", None),
        (f"{LONG}.csv", f"{LONG}.csv", errno.ENAMETOOLONG),
        ("x" * 246 + ".csv", "x" * 246 + ".csv", errno.ENAMETOOLONG),
        ("nul\0.csv", "nul\0.csv", None),
        ("/proc/name.csv", "/proc", ANY),
    ],
)
def test_files_that_cannot_be_written(here, name, path, there):
    with pytest.raises(DataError, check=about(here / path, there)):
        check_out(here / name, (".csv", ".parquet"), overwrite=False)
    assert (here / "there.csv").read_text() == "keep me"


def test_checking_a_file_leaves_no_trace(here):
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
    ("name", "there"),
    [
        ("file", {FILE}),
        ("file/deeper/still", {FILE}),
        ("pipe", {FILE}),
        ("loop", {LINK, errno.ELOOP}),
        ("loop/inside", {LINK, errno.ELOOP}),
        (LONG, {errno.ENAMETOOLONG}),
        ("/".join(["x" * 200] * 30), {errno.ENAMETOOLONG}),
        ("nul\0", {None}),
        ("/proc/folder", {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS}),
    ],
)
def test_folders_that_cannot_be_created(here, name, there):
    with pytest.raises(DataError, check=lambda error: error.value in there):
        check_folder(here / name)
    with pytest.raises(DataError, check=lambda error: error.value in there):
        check_free([here / name / "a.csv"], overwrite=True)


def test_names_that_are_not_utf8_are_not_written(here):
    path = here / os.fsdecode(b"caf\xe9.csv")
    with pytest.raises(DataError, check=about(path, os.fsencode(path))):
        check_out(path, (".csv",), overwrite=False)
    with pytest.raises(DataError, check=about(path, os.fsencode(path))):
        check_folder(path)


def test_checking_a_folder_does_not_create_it(here):
    check_folder(here / "new" / "deeper")
    check_free([here / "new" / "a.csv", here / "new" / "b.csv"], overwrite=False)
    assert not (here / "new").exists()


def test_free_space_is_that_of_the_disk_of_the_folder(here):
    check_disk_space(here / "new" / "deeper", 1e3, "2 models")
    with pytest.raises(DataError, check=about(here / "new" / "deeper")):
        check_disk_space(here / "new" / "deeper", 1e18, "2 models")
    check_disk_space(Path("new"), 1e3, "1 model")


def test_links_inside_a_folder_are_errors_but_the_folder_may_be_a_link(tmp_path):
    (tmp_path / "study" / "runs").mkdir(parents=True)
    (tmp_path / "link").symlink_to("study")
    refuse_inner_links(tmp_path / "link", ("runs", "missing"))
    (tmp_path / "study" / "best").symlink_to("nowhere")
    with pytest.raises(DataError, check=about(tmp_path / "link" / "best", LINK)):
        refuse_inner_links(tmp_path / "link", ("runs", "best"))
    (tmp_path / "study" / "runs" / "one").symlink_to(tmp_path)
    with pytest.raises(DataError, check=about(tmp_path / "study" / "runs" / "one", LINK)):
        refuse_inner_links(tmp_path / "study", ("runs",))
