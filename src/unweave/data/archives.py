"""From published files to arrays: members read as streams, images cut to size, results kept.

Nothing is unpacked to disk. What a loader converts is written once into the cache, as an array of
images and a small `.npz` of what else is known, and opened from there afterwards.
"""

import gzip
import hashlib
import io
import lzma
import math
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar, cast

import numpy as np
from PIL import Image, UnidentifiedImageError

from unweave.data.cached_files import checked_file, open_array, open_checked, read_any_npy_header
from unweave.data.fetch import RemoteFile, fetch
from unweave.data.pictures import open_picture
from unweave.errors import DataError
from unweave.io.writing import cache_folder

__all__ = [
    "BROKEN",
    "Convert",
    "Facts",
    "batches",
    "centre",
    "fetching",
    "find_files",
    "members",
    "open_image",
    "open_stream",
    "open_tar",
    "prepare",
    "read_exactly",
    "read_file",
    "read_member",
    "read_npz",
    "reading",
    "shrink",
]

Facts = dict[str, np.ndarray]
"""What is known of the images of a data set besides the images, by name."""

Convert = Callable[[Sequence[Path], Path], Facts]
"""Writes the images of some source files to a path in the cache; returns what else is known."""

Item = TypeVar("Item")

BROKEN = (
    OSError,
    EOFError,
    ValueError,
    ArithmeticError,
    KeyError,
    SyntaxError,  # Pillow, of broken images
    RuntimeError,  # zipfile, of passwords and of compressions that it does not know
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
    Image.DecompressionBombError,
)
"""What the libraries that read files raise for broken or hostile ones."""

MOST_FACTS = 1 << 30
MOST_MEMBER = 64 << 20
"""Bytes of one file in a tar; published ones have 5 MB at most."""
MOST_UNPACKED = 64 << 30
"""Bytes of a whole tar; published ones have some GB."""
MOST_MEMBERS = 500_000


def prepare(
    name: str,
    obtain: Callable[[Path], Sequence[Path]],
    given: Sequence[Path] | None,
    convert: Convert,
    stem: str = "images",
) -> tuple[np.ndarray, Facts]:
    """The images and facts of a data set, converted where the cache does not have them yet.

    Args:
        name: The data set's folder in the cache.
        obtain: Gets the published files into that folder, if `given` is None and nothing has been
            converted yet.
        given: The user's own files. What comes of them is kept apart, under their fingerprint.
        convert: Does the work.
        stem: The name in the cache, different for different ways to convert.

    Returns:
        The images, memory-mapped, and the facts.
    """
    folder = cache_folder() / name
    place = folder / f"{stem if given is None else f'{stem}-{fingerprint(given)}'}.npy"
    found = _open(place)
    if found is None:
        facts = convert(obtain(folder) if given is None else given, place)
        with checked_file(place.with_suffix(".npz")) as temporary:
            np.savez(temporary, **facts)  # type: ignore[arg-type] # its stub mixes up keywords
        found = _open(place)
        assert found is not None
    return found


def _open(place: Path) -> tuple[np.ndarray, Facts] | None:
    images, facts = open_array(place), open_checked(place.with_suffix(".npz"))
    if facts is None:
        return None
    with facts:
        try:
            known = read_npz(facts, MOST_FACTS)
        except BROKEN:
            return None
    return None if images is None else (images, known)


def read_npz(file: Path | IO[bytes], most: int) -> Facts:
    """The arrays of an `.npz` file of at most so many bytes once unpacked; no pickled objects."""
    with zipfile.ZipFile(file) as archive:
        size = sum(member.file_size for member in archive.infolist())
        if size > most:
            raise ValueError(f"it has {size:,} bytes unpacked, more than the {most:,} expected")
        found = {}
        for member in archive.infolist():
            with archive.open(member) as stream:
                shape, _, dtype = read_any_npy_header(stream)
            claimed = math.prod(shape) * dtype.itemsize
            if claimed > member.file_size:
                raise ValueError(f"its {member.filename} claims to have {claimed:,} bytes")
            with archive.open(member) as stream:
                array = np.lib.format.read_array(stream, allow_pickle=False)
            found[member.filename.removesuffix(".npy")] = array
    return found


def fetching(files: Sequence[RemoteFile]) -> Callable[[Path], list[Path]]:
    """What fetches all these files into a folder."""
    return lambda folder: [fetch(file, folder) for file in files]


def fingerprint(paths: Sequence[Path]) -> str:
    """A short hash of where files are, how long they are and when they changed."""
    digest = hashlib.sha256()
    for path in paths:
        status = path.stat()
        digest.update(f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def find_files(path: str | Path, names: Sequence[str]) -> list[Path]:
    """The files called `names`, `.gz` or not, in the folder `path`, or `path` if it is the one."""
    path = Path(path)
    if path.is_file() and len(names) == 1:
        return [path]
    if not path.is_dir():
        wanted = names[0] if len(names) == 1 else f"a folder with {names[0]} and its companions"
        raise DataError(f"{path} should be {wanted}, but there is no such thing; check the path")
    found = []
    for name in names:
        choices = [path / name, path / name.removesuffix(".gz")]
        present = [choice for choice in choices if choice.is_file()]
        if not present:
            raise DataError(f"{path} should hold {name}, but does not; put it there")
        found.append(present[0])
    return found


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Make whatever goes wrong in reading a broken file a DataError that names it."""
    try:
        yield
    except BROKEN as error:
        reason = " ".join(str(error).split()).strip("'\"") or type(error).__name__
        raise DataError(
            f"{path} cannot be read ({reason}); it is incomplete or not the published file, "
            "so get it again"
        ) from error


def open_stream(path: Path) -> io.BufferedIOBase:
    """A file opened for reading, decompressed where its name ends in `.gz`."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


class _Bounded:
    """A stream that refuses to be read at once, or to its end, where that is beyond all measure.

    A tar's headers say how much of it is to be read, and a small compressed file may claim a lot.
    """

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self.stream = stream

    def read(self, count: int = -1) -> bytes:
        if not 0 <= count <= MOST_MEMBER:
            raise ValueError(f"a part of it claims to have {count:,} bytes")
        return self.stream.read(count)

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET and place > MOST_UNPACKED:
            raise ValueError(f"it claims to have {place:,} bytes unpacked")
        return self.stream.seek(place, whence)

    def tell(self) -> int:
        return self.stream.tell()


@contextmanager
def open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """A tar opened for reading, compressed by gzip or not, with bounds on what it may claim."""
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path) if packed else path.open("rb") as stream:
        bounded = cast(IO[bytes], _Bounded(stream))
        with tarfile.open(fileobj=bounded, mode="r:") as tar:
            yield tar


def read_file(path: Path, most: int = MOST_MEMBER) -> bytes:
    """The content of a regular file of at most so many bytes."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file")
    if status.st_size > most:
        raise ValueError(f"it has {status.st_size:,} bytes, more than the {most:,} expected")
    return path.read_bytes()


def members(tar: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """The regular files in a tar, if they are not beyond counting."""
    found = []
    for number, member in enumerate(tar):
        if number == MOST_MEMBERS:
            raise ValueError(f"it holds more than {MOST_MEMBERS:,} files")
        if member.isreg():
            found.append(member)
    return found


def read_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """The content of a regular file in a tar."""
    stream = tar.extractfile(member)
    if stream is None or member.size > MOST_MEMBER:
        raise ValueError(f"{member.name} in it claims to have {member.size:,} bytes")
    return stream.read()


def read_exactly(stream: IO[bytes] | io.BufferedIOBase, count: int) -> bytes:
    """The next `count` bytes; EOFError where there are fewer."""
    data = stream.read(count)
    if len(data) != count:
        raise EOFError(f"it ends {count - len(data):,} bytes too early")
    return data


def batches(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """Consecutive runs of at most `size` items."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def open_image(content: bytes | Path) -> Image.Image:
    """The image in the content of an image file; ValueError where it is none, or far too large."""
    try:
        return open_picture(io.BytesIO(content) if isinstance(content, bytes) else content)
    except UnidentifiedImageError:
        raise ValueError("it is not an image") from None
    except Image.DecompressionBombWarning as error:  # where warnings are errors
        raise ValueError(str(error)) from None


def centre(image: Image.Image, side: int) -> Image.Image:
    """The square of `side` pixels in the middle of an image."""
    if min(image.size) < side:
        raise ValueError(f"an image of {image.width} × {image.height} is too small to crop")
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return image.crop((left, top, left + side, top + side))


def shrink(image: Image.Image, side: int) -> np.ndarray:
    """An image resized by Lanczos' filter (once called antialias), bytes `[side, side, C]`."""
    pixels = np.asarray(image.resize((side, side), Image.Resampling.LANCZOS))
    return pixels.reshape(side, side, -1)
