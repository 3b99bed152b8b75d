"""Checksums of files."""

import hashlib
import subprocess

import pytest

from unweave.io.checksums import SUMS, sha256_of, verify, verify_listed, write_sums


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").write_bytes(b"first")
    (tmp_path / "b c").write_bytes(b"")
    write_sums(tmp_path, ["a", "b c"])
    return tmp_path


def test_the_format_is_that_of_sha256sum(folder):
    check = ["sha256sum", "--check", "--strict", "--quiet", SUMS]
    assert subprocess.run(check, cwd=folder, check=False).returncode == 0
    for flags in ([], ["--binary"]):
        made = subprocess.run(
            ["sha256sum", *flags, "a", "b c"], cwd=folder, check=True, capture_output=True
        )
        (folder / SUMS).write_bytes(made.stdout)
        verify(folder, ["a", "b c"])


def test_changed_missing_and_unlisted_files_are_errors(folder):
    verify(folder, ["a"])
    (folder / "a").write_bytes(b"other")
    verify(folder, ["b c"])
    with pytest.raises(ValueError, match=r"^a "):
        verify(folder, ["b c", "a"])
    with pytest.raises(ValueError, match=r"x$"):
        verify(folder, ["x"])
    (folder / "b c").unlink()
    with pytest.raises(FileNotFoundError):
        verify(folder, ["b c"])


def test_optional_files_are_verified_if_listed(folder):
    verify_listed(folder, ["a", "x"])
    (folder / "a").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"^a "):
        verify_listed(folder, ["a", "x"])
    text = (folder / SUMS).read_text()
    (folder / SUMS).write_text(text.replace("  a", "  A"))
    with pytest.raises(FileNotFoundError):  # else a damaged name would hide a damaged file
        verify_listed(folder, ["a", "x"])


def test_a_recently_changed_file_is_read_again(folder):
    """Within the resolution of file times, its size and times may be the same."""
    for content in (b"one", b"two", b"six", b"ten"):
        (folder / "a").write_bytes(content)
        assert sha256_of(folder / "a") == hashlib.sha256(content).hexdigest()


def test_files_that_are_too_large_are_not_read(folder):
    assert sha256_of(folder / "a", most=5) == hashlib.sha256(b"first").hexdigest()
    with pytest.raises(ValueError, match=r"5 .* 4$"):
        sha256_of(folder / "a", most=4)
