"""From published files to arrays: members read as streams, images cut to size, results kept.

Nothing is unpacked to disk. What a loader converts is written once into the cache, as an array of
images and a small `.npz` of what else is known, and opened from there afterwards.
"""

import gzip
import hashlib
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
from PIL import Image, UnidentifiedImageError

from unweave.data.cache import cache_folder, open_array, whole_file
from unweave.data.fetch import RemoteFile, fetch
from unweave.errors import DataError

__all__ = [
    "Convert",
    "Facts",
    "batches",
    "centre",
    "fetching",
    "find_files",
    "open_image",
    "open_stream",
    "prepare",
    "read_exactly",
    "read_npy_header",
    "reading",
    "shrink",
]

Facts = dict[str, np.ndarray]
"""What is known of the images of a data set besides the images, by name."""

Convert = Callable[[Sequence[Path], Path], Facts]
"""Writes the images of some source files to a path in the cache; returns what else is known."""

Item = TypeVar("Item")


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
        with whole_file(place.with_suffix(".npz")) as temporary:
            np.savez(temporary, **facts)  # type: ignore[arg-type] # its stub mixes up keywords
        found = _open(place)
        assert found is not None
    return found


def _open(place: Path) -> tuple[np.ndarray, Facts] | None:
    images = open_array(place)
    try:
        with np.load(place.with_suffix(".npz"), allow_pickle=False) as stored:
            facts = dict(stored)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    return None if images is None else (images, facts)


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
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        NotImplementedError,  # zipfile, of a compression that it does not know
        zlib.error,
        zipfile.BadZipFile,
        tarfile.TarError,
    ) as error:
        reason = " ".join(str(error).split()).strip("'\"") or type(error).__name__
        raise DataError(
            f"{path} cannot be read ({reason}); it is incomplete or not the published file, "
            "so get it again"
        ) from error


def open_stream(path: Path) -> io.BufferedIOBase:
    """A file opened for reading, decompressed where its name ends in `.gz`."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def read_exactly(stream: IO[bytes] | io.BufferedIOBase, count: int) -> bytes:
    """The next `count` bytes; EOFError where there are fewer."""
    data = stream.read(count)
    if len(data) != count:
        raise EOFError(f"it ends {count - len(data):,} bytes too early")
    return data


def read_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """The shape and type of the `.npy` array whose data follow in the stream, in C order."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    else:
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    if fortran:
        raise ValueError("its array is in Fortran's order")
    return shape, dtype


def batches(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """Consecutive runs of at most `size` items."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def open_image(content: bytes) -> Image.Image:
    """The image in the content of an image file; ValueError where it is none."""
    try:
        return Image.open(io.BytesIO(content))
    except UnidentifiedImageError:
        raise ValueError("it is not an image") from None


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
