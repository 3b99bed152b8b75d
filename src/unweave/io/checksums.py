"""Checksums of files in a folder: `SHA256SUMS`, in the format of `sha256sum --check`.

They detect damage and mix-ups, not tampering: whoever changes a file can change its checksum too.
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from unweave.io.plain_data import read_text

__all__ = ["SUMS", "sha256_of", "verify", "verify_listed", "write_sums"]

SUMS = "SHA256SUMS"
LINE = re.compile(r"([0-9a-f]{64}) [ *]([^/\\\0]+)")
MAX_SUMS_BYTES = 1 << 20
MAX_BYTES = 4 << 30
"""Largest file of a saved model; hashing a sparse file of terabytes would take hours."""
SETTLED_SECONDS = 2.0
"""Resolution of file times, in seconds. If a file changes twice within this time, its modification
time may not show the second change."""

_cache: dict[str, tuple[tuple[int, ...], str]] = {}
"""Digests computed in this process, by path, each with the state of the file."""


def write_sums(folder: Path, names: Sequence[str]) -> None:
    """Write `SHA256SUMS` for some of the files in a folder."""
    lines = [f"{sha256_of(folder / name)}  {name}\n" for name in names]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def verify(folder: Path, names: Sequence[str]) -> None:
    """Compare files with their checksums in the same folder.

    Raises:
        FileNotFoundError: A file, or `SHA256SUMS`, is missing.
        ValueError: A file differs, or `SHA256SUMS` does not list it.
    """
    listed = _listed(folder)
    for name in names:
        if name not in listed:
            raise ValueError(f"{SUMS} does not list {name}")
        if sha256_of(folder / name) != listed[name]:
            raise ValueError(f"{name} does not match its checksum in {SUMS}")


def verify_listed(folder: Path, names: Sequence[str]) -> None:
    """Verify those of the files that `SHA256SUMS` lists; all listed files must exist."""
    listed = _listed(folder)
    for name in listed:
        (folder / name).stat()
    verify(folder, [name for name in names if name in listed])


def _listed(folder: Path) -> dict[str, str]:
    """Return the checksums in a folder, by file name."""
    listed: dict[str, str] = {}
    try:
        text = read_text(folder / SUMS, MAX_SUMS_BYTES)
    except ValueError as error:
        raise ValueError(f"cannot read {SUMS}: {error}") from error
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        found = LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"line {number} of {SUMS} must be a checksum and a file name")
        if found[2] in listed:
            raise ValueError(f"{SUMS} lists {found[2]} twice")
        listed[found[2]] = found[1]
    return listed


def sha256_of(path: Path, most: int = MAX_BYTES) -> str:
    """Return the SHA-256 of a regular file, in hexadecimal.

    Digests are cached: a file is read again only if its size, times or inode have changed.
    """
    key = str(path.absolute())
    before = path.stat()
    if not stat.S_ISREG(before.st_mode):
        raise ValueError(f"{path.name} is not a regular file")
    if before.st_size > most:
        raise ValueError(f"{path.name} has {before.st_size:,} bytes, more than {most:,}")
    cached = _cache.get(key)
    if cached is not None and cached[0] == _state(before):
        return cached[1]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        after = os.fstat(file.fileno())
    changed = max(after.st_mtime, after.st_ctime)
    if _state(before) == _state(after) and time.time() - changed > SETTLED_SECONDS:
        _cache[key] = (_state(after), digest)
    return digest


def _state(file: os.stat_result) -> tuple[int, ...]:
    return file.st_size, file.st_mtime_ns, file.st_ctime_ns, file.st_ino, file.st_dev
