"""Safe readers for untrusted files: archives, compressed files and NumPy arrays.

Files are read as streams with size limits. Nothing is unpacked to disk and no pickles are loaded.
Sizes in headers are checked against the size of the file. Failures raise one of the exceptions in
`READ_ERRORS`, which `reading` converts into a `DataError` that names the file.
"""

import gzip
import io
import lzma
import math
import stat
import struct
import tarfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar, cast

import numpy as np
from PIL import Image

from unweave.errors import DataError
from unweave.text import shown

__all__ = [
    "READ_ERRORS",
    "batches",
    "members",
    "open_stream",
    "open_tar",
    "read_exactly",
    "read_file",
    "read_member",
    "read_npy_header",
    "read_npz",
    "reading",
    "reason_of",
]

Item = TypeVar("Item")

READ_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    ArithmeticError,
    KeyError,
    MemoryError,
    SyntaxError,  # from NumPy headers, which are Python literals, and from Pillow
    tokenize.TokenError,
    RuntimeError,  # from zipfile, for passwords and unknown compression methods
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
    Image.DecompressionBombError,
)
"""Exceptions that file-reading libraries raise for broken or malicious files."""
PUBLISHED = "it is incomplete or not the published file; download it again"

MAX_MEMBER_BYTES = 64 << 20
"""Largest file in a tar, in bytes; the largest published one is 5 MB."""
MAX_TAR_BYTES = 64 << 30
"""Largest uncompressed tar, in bytes; published ones are a few GB."""
MAX_MEMBERS = 500_000


@contextmanager
def reading(path: Path, advice: str = PUBLISHED) -> Iterator[None]:
    """Convert exceptions raised while reading a broken file to a DataError that names it."""
    try:
        yield
    except READ_ERRORS as error:
        raise DataError(
            f"cannot read {path} ({reason_of(error)}); {advice}", subject=path
        ) from error


def reason_of(error: BaseException) -> str:
    """Return the message of an exception as a single line."""
    return " ".join(str(error).split()).strip("'\"") or type(error).__name__


def read_file(path: Path, most: int = MAX_MEMBER_BYTES) -> bytes:
    """Read a regular file of at most `most` bytes."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file")
    if status.st_size > most:
        raise ValueError(f"it has {status.st_size:,} bytes, more than the limit of {most:,}")
    return path.read_bytes()


def open_stream(path: Path) -> io.BufferedIOBase:
    """Open a file for reading, decompressing it if its name ends in `.gz`."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def read_exactly(stream: IO[bytes] | io.BufferedIOBase, count: int) -> bytes:
    """Read the next `count` bytes; raise EOFError if there are fewer."""
    data = stream.read(count)
    if len(data) != count:
        raise EOFError(f"it ends {count - len(data):,} bytes too early")
    return data


def batches(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """Split a sequence into consecutive batches of at most `size` items."""
    return [items[start : start + size] for start in range(0, len(items), size)]


class _Bounded:
    """A stream that limits the size of a single read and the total length.

    The headers of a tar decide how much is read, and a small compressed file can claim any size.
    """

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self.stream = stream

    def read(self, count: int = -1) -> bytes:
        if not 0 <= count <= MAX_MEMBER_BYTES:
            raise ValueError(f"a header claims a size of {count:,} bytes")
        return self.stream.read(count)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET and offset > MAX_TAR_BYTES:
            raise ValueError(f"it claims an uncompressed size of {offset:,} bytes")
        return self.stream.seek(offset, whence)

    def tell(self) -> int:
        return self.stream.tell()


@contextmanager
def open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar for reading, optionally gzip-compressed, with limits on the sizes it claims."""
    with path.open("rb") as plain:
        compressed = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path) if compressed else path.open("rb") as stream:
        bounded = cast(IO[bytes], _Bounded(stream))
        with tarfile.open(fileobj=bounded, mode="r:") as tar:
            yield tar


def members(tar: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """List the regular files in a tar; raise ValueError if it has too many."""
    found = []
    for number, member in enumerate(tar):
        if number == MAX_MEMBERS:
            raise ValueError(f"it contains more than {MAX_MEMBERS:,} files")
        if member.isreg():
            found.append(member)
    return found


def read_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Read a regular file in a tar."""
    stream = tar.extractfile(member)
    if stream is None or member.size > MAX_MEMBER_BYTES:
        raise ValueError(f"its member {member.name} claims a size of {member.size:,} bytes")
    return stream.read()


def read_npy_header(
    stream: IO[bytes], allow_fortran: bool = False
) -> tuple[tuple[int, ...], np.dtype]:
    """Read the shape and dtype from a `.npy` header, leaving the stream at the array data.

    Args:
        stream: Stream positioned at the start of the header.
        allow_fortran: Whether to accept arrays in Fortran order (default False).
    """
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(stream)
    if version not in readers:
        raise ValueError("it has named fields")  # the only use of version 3
    try:
        shape, fortran, dtype = readers[version](stream)
    except Exception as error:  # headers are Python literals, and the parsers raise anything
        raise ValueError(f"its header is damaged: {error}") from error
    # NumPy counts elements in 64 bits, even if the itemsize is 0.
    if min(shape, default=0) < 0 or math.prod(shape) * max(1, dtype.itemsize) >= 2**63:
        raise ValueError(f"its array has the impossible shape {shown(shape)}")
    if fortran and not allow_fortran:
        raise ValueError("its array is in Fortran order")
    return shape, dtype


def read_npz(file: Path | IO[bytes], most: int) -> dict[str, np.ndarray]:
    """Read the arrays of an `.npz` file of at most `most` uncompressed bytes, without pickles."""
    with zipfile.ZipFile(file) as archive:
        size = sum(member.file_size for member in archive.infolist())
        if size > most:
            raise ValueError(f"it unpacks to {size:,} bytes, more than the limit of {most:,}")
        return {
            member.filename.removesuffix(".npy"): read_zipped_array(archive, member)
            for member in archive.infolist()
        }


def read_zipped_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Read an array in a zip after checking its claimed size, without pickles."""
    claimed = claimed_bytes(archive, member)
    if claimed > member.file_size:
        raise ValueError(
            f"its {member.filename} claims {claimed:,} bytes but has {member.file_size:,}"
        )
    with archive.open(member) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def claimed_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Return the size in bytes that the header of an array in a zip claims."""
    with archive.open(member) as stream:
        shape, dtype = read_npy_header(stream, allow_fortran=True)
    return math.prod(shape) * dtype.itemsize
