"""Checksums of cached files: damage is found, and intact files are accepted."""

import errno
import hashlib
import json
import os

import numpy as np
import pytest

from tests.data.damage_tools import flip_bit
from unweave.data import cached_files as checked
from unweave.data.cached_files import BLOCK, open_array, read_sums, sums_path, whole_array
from unweave.errors import DataError

SHAPE = (40, BLOCK // 2)
"""Size of an array of 20 blocks and a header."""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "array.npy"
    with whole_array(path, SHAPE) as array:
        array[:] = np.arange(SHAPE[0])[:, None]
    return path


def test_writing_an_array_records_its_checksums(path):
    sums = read_sums(path)
    assert sums.size == path.stat().st_size
    assert sums.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(sums.blocks) == 21
    assert [file.name for file in sorted(path.parent.iterdir())] == [
        ".array.npy.sum",
        "array.npy",
    ]


@pytest.mark.parametrize("place", [0, 300, -1])
def test_damage_in_the_first_or_the_last_block_is_always_found(path, place, capfd):
    flip_bit(path, place % path.stat().st_size)
    assert open_array(path) is None
    assert "array.npy is damaged" in capfd.readouterr().err


def test_damage_elsewhere_is_found_eventually(path):
    flip_bit(path, 10 * BLOCK)
    assert any(open_array(path) is None for _ in range(60))  # each samples 6 of 19 blocks


def test_a_changed_modification_time_triggers_a_full_check(path):
    for place in range(BLOCK, 20 * BLOCK, 3 * BLOCK):
        flip_bit(path, place, keep_time=False)
        assert open_array(path) is None
        flip_bit(path, place, keep_time=False)
        assert open_array(path) is not None


def test_a_copy_with_another_time_is_fully_checked_once(path, monkeypatch):
    os.utime(path, ns=(1, 1))
    assert open_array(path) is not None
    with monkeypatch.context() as patch:
        patch.setattr(checked, "check_fully", None)
        assert open_array(path) is not None


def test_opening_reads_a_few_blocks_only(path, monkeypatch):
    read = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *what: read.append(what) or pread(*what))
    assert open_array(path) is not None
    assert len(read) == checked.SAMPLE


def test_read_errors_count_as_damage(path, monkeypatch):
    def fail(*what):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fail)
    assert open_array(path) is None


def test_missing_checksums_are_recorded(path):
    before = read_sums(path)
    sums_path(path).unlink()
    assert open_array(path) is not None
    assert read_sums(path) == before


def test_a_file_without_checksums_is_compared_with_its_known_hash(path):
    digest = read_sums(path).sha256
    flip_bit(path, 10 * BLOCK)
    sums_path(path).unlink()
    assert open_array(path, SHAPE, digest) is None
    assert read_sums(path) is None
    flip_bit(path, 10 * BLOCK)
    assert open_array(path, SHAPE, digest) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"size": 3}',
        "[" * 100_000,
        '{"size": "x", "mtime_ns": 0, "sha256": "", "blocks": []}',
        '{"size": 1, "mtime_ns": 0, "sha256": "", "blocks": 5}',
        '{"size": 1, "mtime_ns": 0, "sha256": "", "blocks": [], "other": 1}',
    ],
)
def test_invalid_checksum_files_are_ignored(path, text):
    before = read_sums(path)
    sums_path(path).write_text(text)
    assert open_array(path) is not None
    assert read_sums(path) == before


def test_a_wrong_block_checksum_of_an_intact_file_is_corrected(path):
    before = json.loads(sums_path(path).read_text())
    sums_path(path).write_text(json.dumps({**before, "blocks": ["0" * 8, *before["blocks"][1:]]}))
    assert open_array(path) is not None
    assert json.loads(sums_path(path).read_text()) == before


def test_a_crash_before_the_checksums_are_written_is_harmless(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(checked, "write_sums", lambda *_: None)
        with whole_array(path, (7,)) as array:
            array[:] = 7
    assert not sums_path(path).exists()
    assert open_array(path).tolist() == [7] * 7


@pytest.mark.parametrize("which", ["file", "record"])
def test_links_are_rejected(path, tmp_path, which):
    place = path if which == "file" else sums_path(path)
    target = tmp_path / "elsewhere"
    place.rename(target)
    place.symlink_to(target)
    before = target.read_bytes()
    with pytest.raises(DataError, match=path.name):
        open_array(path)
    assert target.read_bytes() == before


def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "array.npy")
    with pytest.raises(DataError, match=r"array\.npy"):
        open_array(tmp_path / "array.npy")


@pytest.mark.parametrize(
    "shape", ["(1 << 50,)", "(99999999999999,)", "(-1,)", "((((", "(1, 2, [])", "(1,) * 9"]
)
def test_impossible_headers_count_as_damage(tmp_path, shape):
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    (tmp_path / "array.npy").write_bytes(content + bytes(10))
    assert open_array(tmp_path / "array.npy") is None


def test_read_only_folders_get_no_checksums(path, monkeypatch):
    monkeypatch.setattr(checked, "_is_writable", lambda _: False)
    sums_path(path).unlink()
    assert open_array(path) is not None
    assert not sums_path(path).exists()
