"""Cached files with checksums, which are stored in a small JSON file `.NAME.sum` next to `NAME`.

    size, mtime_ns  size and modification time at the last full check
    sha256          SHA-256 of the whole file
    blocks          CRC-32 of each MiB, in hexadecimal
    md5             MD5 of the whole file, if its authors publish one

Opening a file checks its first and last block and a few others, which takes milliseconds. A file
that was modified since its last full check is checked completely. A file without checksums, left
by unweave 0.1 or by a crash, is accepted as it is and its checksums are recorded.
"""

import hashlib
import json
import math
import os
import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from unweave.data.archives import read_npy_header
from unweave.errors import DataError
from unweave.io.plain_data import MAX_BYTES, parse_json
from unweave.io.temporary import remove_leftovers
from unweave.io.writing import open_plain, whole_file, write_errors
from unweave.progress import say, track

__all__ = [
    "Sums",
    "check_fully",
    "check_quickly",
    "checked_file",
    "mapped_array",
    "matches_sample",
    "open_array",
    "open_checked",
    "read_sums",
    "sums_of",
    "sums_path",
    "whole_array",
    "write_sums",
]

BLOCK = 1 << 20
SAMPLE = 8
"""Number of blocks checked on opening."""
LONG = 256 << 20
"""File size in bytes above which a full check shows a progress bar."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sums:
    """Checksums of a file; see the module docstring."""

    size: int
    mtime_ns: int
    sha256: str
    blocks: tuple[str, ...]
    md5: str | None = None


@contextmanager
def whole_array(path: Path, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Yield a uint8 array on disk to fill in; it is moved to `path` (`.npy`) when complete."""
    with checked_file(path) as temporary:
        with write_errors(path):
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
            # Reserve the space now: a full disk is an error here, but would be a crash later.
            if hasattr(os, "posix_fallocate"):
                with temporary.open("rb+") as file:
                    os.posix_fallocate(file.fileno(), 0, temporary.stat().st_size)
        yield array
        array.flush()


@contextmanager
def checked_file(path: Path) -> Iterator[Path]:
    """Like `whole_file`, but also record the checksums of the file."""
    with whole_file(path) as temporary:
        yield temporary
        with temporary.open("rb") as file:
            sums = sums_of(file, path.name)
        # A crash from here on leaves a file without checksums, never one with wrong checksums.
        sums_path(path).unlink(missing_ok=True)
    write_sums(path, sums)


def open_array(
    path: Path, shape: tuple[int, ...] | None = None, sha256: str | None = None
) -> np.ndarray | None:
    """Memory-map the `.npy` file at `path`; return None if it is missing, damaged or truncated.

    `shape` and `sha256` are the expected values, if known in advance.
    """
    file = open_checked(path, sha256)
    if file is None:
        return None
    with file:
        try:
            array = mapped_array(file)
        except ValueError as error:
            say(f"{path} is damaged ({error}) and will be rebuilt")
            return None
    return array if shape is None or array.shape == shape else None


def open_checked(path: Path, sha256: str | None = None) -> BinaryIO | None:
    """Open a cached file for reading; if it is damaged, print a message and return None."""
    while True:
        try:
            file = open_plain(path)
        except OSError:
            return None
        remove_leftovers(path.parent)
        try:
            problem = check_quickly(path, file, sha256)
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
        except DataError:
            file.close()
            raise
        if problem is None:
            return file
        replaced = not _is_at(path, file)  # by another process
        file.close()
        if not replaced:
            say(f"{path} is damaged ({problem}) and will be rebuilt")
            return None


def mapped_array(file: BinaryIO) -> np.ndarray:
    """Memory-map the byte array in an open `.npy` file; raise ValueError if it is invalid."""
    shape, dtype = read_npy_header(file)
    if dtype != np.uint8:
        raise ValueError(f"expected a uint8 array, got {dtype}")
    start, size = file.tell(), os.fstat(file.fileno()).st_size
    expected = math.prod(shape)
    if size != start + expected:
        raise ValueError(f"expected {expected:,} bytes of data, got {size - start:,}")
    # Copy-on-write: the file is never changed, and torch may share the memory.
    return np.memmap(file, np.uint8, "c", start, shape)


def check_quickly(path: Path, file: BinaryIO, sha256: str | None = None) -> str | None:
    """Describe the damage of an open cached file found by a sample of its checksums, if any."""
    recorded = read_sums(path)
    status = os.fstat(file.fileno())
    if recorded is not None and recorded.size == status.st_size and matches_sample(file, recorded):
        # In a read-only folder, a full check would be repeated at every opening.
        if recorded.mtime_ns == status.st_mtime_ns or not _is_writable(path):
            return None
    elif recorded is None and not _is_writable(path):
        return None
    return check_fully(path, file, sha256)


def check_fully(path: Path, file: BinaryIO, sha256: str | None = None) -> str | None:
    """Describe the damage of an open cached file, if any; otherwise record its checksums."""
    recorded = read_sums(path)
    size = os.fstat(file.fileno()).st_size
    if recorded is not None and recorded.size != size:
        return f"expected {recorded.size:,} bytes, got {size:,}"
    found = sums_of(file, path.name)
    for expected in (sha256, None if recorded is None else recorded.sha256):
        if expected is not None and expected != found.sha256:
            return f"expected SHA-256 {expected[:16]}…, got {found.sha256[:16]}…"
    found = replace(found, md5=None if recorded is None else recorded.md5)
    if found != recorded:
        write_sums(path, found)
    return None


def matches_sample(file: BinaryIO, sums: Sums) -> bool:
    """Whether the first, the last and a few random blocks match the recorded checksums."""
    last = len(sums.blocks) - 1
    between = range(1, last)
    # Unseeded, as no result depends on it.
    others = random.SystemRandom().sample(between, min(SAMPLE - 2, len(between)))
    return all(
        _crc(os.pread(file.fileno(), BLOCK, number * BLOCK)) == sums.blocks[number]
        for number in sorted({0, last, *others})
    )


def sums_of(file: BinaryIO, name: str, md5: bool = False) -> Sums:
    """Compute the checksums of an open file."""
    status = os.fstat(file.fileno())
    whole, published = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    blocks = []
    starts = range(0, max(status.st_size, 1), BLOCK)
    for start in track(starts, f"checking {name}") if status.st_size > LONG else starts:
        block = os.pread(file.fileno(), BLOCK, start)
        whole.update(block)
        blocks.append(_crc(block))
        if md5:
            published.update(block)
    return Sums(
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        sha256=whole.hexdigest(),
        blocks=tuple(blocks),
        md5=published.hexdigest() if md5 else None,
    )


def sums_path(path: Path) -> Path:
    """Return the path of the checksum file of a file."""
    return path.with_name(f".{path.name}.sum")


def read_sums(path: Path) -> Sums | None:
    """Read the recorded checksums of a file; return None if there are no valid ones."""
    try:
        with open_plain(sums_path(path)) as file:
            stored = parse_json(file.read(MAX_BYTES))
        sums = Sums(**{**stored, "blocks": tuple(stored["blocks"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return sums if _is_sound(sums) else None


def write_sums(path: Path, sums: Sums) -> None:
    """Record the checksums of a file, unless its folder is read-only."""
    with suppress(DataError), whole_file(sums_path(path)) as temporary:
        temporary.write_text(json.dumps(asdict(sums)) + "\n")


def _is_sound(sums: Sums) -> bool:
    numbers = all(type(value) is int for value in (sums.size, sums.mtime_ns))
    texts = all(isinstance(value, str) for value in (sums.sha256, *sums.blocks, sums.md5 or ""))
    return numbers and texts and len(sums.blocks) == max(1, -(-sums.size // BLOCK))


def _crc(block: bytes) -> str:
    return f"{zlib.crc32(block):08x}"


def _is_writable(path: Path) -> bool:
    return os.access(path.parent, os.W_OK)


def _is_at(path: Path, file: BinaryIO) -> bool:
    """Whether an open file is still the file at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except OSError:
        return True
