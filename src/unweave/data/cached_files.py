"""Cached files that carry checksums, in a small JSON file `.NAME.sum` beside `NAME`.

    size, mtime_ns  of the file when it was checked as a whole
    sha256          of the whole file
    blocks          CRC-32 of each MiB, in hexadecimal
    md5             of the whole file, where its authors publish one

Opening a file checks its first and last block and a few others, which takes milliseconds. A file
that was written to since is checked as a whole. So is one without a record, which comes from
unweave 0.1 or from a crash just before its record was written: it is recorded as it is found.
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
from typing import IO, BinaryIO

import numpy as np

from unweave.errors import DataError
from unweave.io.plain_data import MOST_BYTES, parse_json
from unweave.io.temporary import remove_leftovers
from unweave.io.writing import open_plain, whole_file, write_errors
from unweave.progress import say, track

__all__ = [
    "Sums",
    "checked_file",
    "damage",
    "full_damage",
    "has_sample",
    "mapped_array",
    "open_array",
    "open_checked",
    "read_any_npy_header",
    "read_npy_header",
    "read_sums",
    "sums_of",
    "sums_path",
    "whole_array",
    "write_sums",
]

BLOCK = 1 << 20
SAMPLE = 8
"""Blocks that are checked on opening."""
LONG = 256 << 20
"""Bytes from which on a full check shows its progress."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sums:
    """The checksums of a file; see the module."""

    size: int
    mtime_ns: int
    sha256: str
    blocks: tuple[str, ...]
    md5: str | None = None


@contextmanager
def whole_array(path: Path, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """A uint8 array on disk to fill in, which appears at `path` (`.npy`) once it is complete."""
    with checked_file(path) as temporary:
        with write_errors(path):
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
            # Claim the space now: on a full disk this is an error, a page fault later a crash.
            if hasattr(os, "posix_fallocate"):
                with temporary.open("rb+") as file:
                    os.posix_fallocate(file.fileno(), 0, temporary.stat().st_size)
        yield array
        array.flush()


@contextmanager
def checked_file(path: Path) -> Iterator[Path]:
    """`whole_file`, with checksums recorded beside it."""
    with whole_file(path) as temporary:
        yield temporary
        with temporary.open("rb") as file:
            sums = sums_of(file, path.name)
        # A crash from here on leaves a file without a record, never one with that of another.
        sums_path(path).unlink(missing_ok=True)
    write_sums(path, sums)


def open_array(
    path: Path, shape: tuple[int, ...] | None = None, sha256: str | None = None
) -> np.ndarray | None:
    """The `.npy` file at `path`, memory-mapped; None where it is missing, damaged or cut short.

    Args:
        path: The file.
        shape: That it must have.
        sha256: Of the file, where that is known beforehand.
    """
    file = open_checked(path, sha256)
    if file is None:
        return None
    with file:
        try:
            array = mapped_array(file)
        except ValueError as error:
            say(f"{path} is damaged ({error}), so it is made again")
            return None
    return array if shape is None or array.shape == shape else None


def open_checked(path: Path, sha256: str | None = None) -> BinaryIO | None:
    """A cached file opened for reading; None, and a line on the terminal, where it is damaged."""
    while True:
        try:
            file = open_plain(path)
        except OSError:
            return None
        remove_leftovers(path.parent)
        try:
            trouble = damage(path, file, sha256)
        except OSError as error:
            trouble = f"it cannot be read: {error.strerror or error}"
        except DataError:
            file.close()
            raise
        if trouble is None:
            return file
        replaced = not _is_at(path, file)  # by another process in the meantime
        file.close()
        if not replaced:
            say(f"{path} is damaged ({trouble}), so it is made again")
            return None


def mapped_array(file: BinaryIO) -> np.ndarray:
    """The array of bytes in an open `.npy` file, memory-mapped; ValueError where it is none."""
    shape, dtype = read_npy_header(file)
    if dtype != np.uint8:
        raise ValueError(f"it is an array of {dtype} in place of bytes")
    start, size = file.tell(), os.fstat(file.fileno()).st_size
    expected = math.prod(shape)
    if size != start + expected:
        raise ValueError(f"it has {size - start:,} bytes of {expected:,}")
    # Copy-on-write: nothing reaches the file, and torch may share the memory.
    return np.memmap(file, np.uint8, "c", start, shape)


def read_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """The shape and type of the `.npy` array whose data follow in the stream, in C order."""
    shape, fortran, dtype = read_any_npy_header(stream)
    if fortran:
        raise ValueError("its array is in Fortran's order")
    return shape, dtype


def read_any_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """The shape of an array in either order, whether it is Fortran's, and the type."""
    version = np.lib.format.read_magic(stream)
    try:
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    except Exception as error:  # a header is Python code, and its parsers raise anything
        raise ValueError(f"its header is damaged: {error}") from error
    if any(size < 0 for size in shape):
        raise ValueError(f"its array has the impossible shape {shape}")
    return shape, fortran, dtype


def damage(path: Path, file: BinaryIO, sha256: str | None = None) -> str | None:
    """What is wrong with an open cached file by a sample of its checksums, if anything."""
    kept = read_sums(path)
    status = os.fstat(file.fileno())
    if kept is not None and kept.size == status.st_size and has_sample(file, kept):
        # Where the folder cannot be written, a full check would be repeated at every opening.
        if kept.mtime_ns == status.st_mtime_ns or not _is_writable(path):
            return None
    elif kept is None and not _is_writable(path):
        return None
    return full_damage(path, file, sha256)


def full_damage(path: Path, file: BinaryIO, sha256: str | None = None) -> str | None:
    """What is wrong with an open cached file, if anything; its checksums are recorded if not."""
    kept = read_sums(path)
    size = os.fstat(file.fileno()).st_size
    if kept is not None and kept.size != size:
        return f"it has {size:,} bytes in place of {kept.size:,}"
    found = sums_of(file, path.name)
    for expected in (sha256, None if kept is None else kept.sha256):
        if expected is not None and expected != found.sha256:
            return f"its SHA-256 is {found.sha256[:16]}… in place of {expected[:16]}…"
    found = replace(found, md5=None if kept is None else kept.md5)
    if found != kept:
        write_sums(path, found)
    return None


def has_sample(file: BinaryIO, sums: Sums) -> bool:
    """Whether the first, the last and a few other blocks of a file are those recorded."""
    last = len(sums.blocks) - 1
    between = range(1, last)
    # The system's own randomness, as no result depends on it.
    others = random.SystemRandom().sample(between, min(SAMPLE - 2, len(between)))
    return all(
        _crc(os.pread(file.fileno(), BLOCK, number * BLOCK)) == sums.blocks[number]
        for number in sorted({0, last, *others})
    )


def sums_of(file: BinaryIO, name: str, md5: bool = False) -> Sums:
    """The checksums of an open file."""
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
    """Where the checksums of a file are recorded."""
    return path.with_name(f".{path.name}.sum")


def read_sums(path: Path) -> Sums | None:
    """The recorded checksums of a file; None where there are none that can be read."""
    try:
        with open_plain(sums_path(path)) as file:
            stored = parse_json(file.read(MOST_BYTES))
        sums = Sums(**{**stored, "blocks": tuple(stored["blocks"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return sums if _is_sound(sums) else None


def write_sums(path: Path, sums: Sums) -> None:
    """Record the checksums of a file; a folder that cannot be written goes without."""
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
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except OSError:
        return True
