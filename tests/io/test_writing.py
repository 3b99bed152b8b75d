"""Files appear whole or not at all."""

import errno
import os
import resource
import subprocess
import sys

import numpy as np
import pytest

from tests.raising import about
from unweave.data.cached_files import open_array, whole_array
from unweave.errors import DataError
from unweave.io.writing import cache_folder, whole_file


def test_a_file_appears_only_when_it_is_complete(tmp_path):
    path = tmp_path / "deep" / "file.bin"
    with whole_file(path) as temporary:
        temporary.write_bytes(b"half")
        assert not path.exists()
        temporary.write_bytes(b"whole")
    assert path.read_bytes() == b"whole"
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]


def test_an_error_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")

    def fail():
        with whole_file(path) as temporary:
            temporary.write_bytes(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.bin"]


def test_arrays_round_trip_and_bad_ones_are_missing(tmp_path):
    path = tmp_path / "array.npy"
    assert open_array(path) is None
    with whole_array(path, (3, 4)) as array:
        array[:] = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(open_array(path, (3, 4)), np.arange(12).reshape(3, 4))
    assert open_array(path, (4, 3)) is None
    os.truncate(path, path.stat().st_size - 1)
    assert open_array(path) is None


def test_a_mapped_array_never_writes_to_its_file(tmp_path):
    path = tmp_path / "array.npy"
    with whole_array(path, (2,)) as array:
        array[:] = 7
    mapped = open_array(path)
    mapped[0] = 9
    del mapped
    assert open_array(path).tolist() == [7, 7]


@pytest.mark.parametrize(
    ("cache", "advised"),
    [(".", True), ("elsewhere", False)],
)
def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch, cache, advised):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / cache))
    (tmp_path / "file").write_text("not a folder")
    place = tmp_path / "file" / "x"
    with pytest.raises(DataError, check=about(place)) as raised, whole_file(place):
        pass
    assert ("UNWEAVE_CACHE" in str(raised.value)) is advised


def test_a_disk_that_fills_under_the_hands_of_who_writes_is_one_sentence(tmp_path):
    with (
        pytest.raises(DataError, check=about(tmp_path / "x", errno.ENOSPC)),
        whole_file(tmp_path / "x"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(ConnectionError, match="not the disk"), whole_file(tmp_path / "x"):
        raise ConnectionError("not the disk")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_one_sentence_not_a_crash(tmp_path):
    def small_files_only():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    code = f"""
import pathlib, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from unweave.data.cached_files import whole_array
from unweave.errors import DataError
try:
    with whole_array(pathlib.Path({str(tmp_path)!r}) / "big.npy", (1 << 24,)) as array:
        array[:] = 1
except (DataError, OSError) as error:
    print(type(error).__name__, error.subject)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        preexec_fn=small_files_only,
        check=False,
    )
    assert done.stdout.split() == ["DataError", str(tmp_path / "big.npy")]
    assert list(tmp_path.iterdir()) == []


def test_the_cache_folder_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("UNWEAVE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "unweave"
