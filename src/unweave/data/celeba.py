"""CelebA: 202,599 faces of celebrities, with 40 attributes each.

Published as a zip of JPEG files of 178 × 218 pixels, with the faces aligned, and a text file of
the attributes. Each image is cropped to a square in its middle and resized. A file that cannot be
read is left out and named in `Dataset.skipped`.

References:
    Liu et al., Deep Learning Face Attributes in the Wild, arXiv:1411.7766.
"""

import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from unweave.data.archives import (
    BROKEN,
    Facts,
    batches,
    centre,
    fetching,
    find_files,
    open_image,
    prepare,
    read_file,
    reading,
    shrink,
)
from unweave.data.cached_files import whole_array
from unweave.data.dataset import Dataset
from unweave.data.fetch import RemoteFile
from unweave.data.grid import Factor, Labels
from unweave.data.stores import Bytes
from unweave.errors import DataError
from unweave.io.plain_data import read_text
from unweave.progress import track

__all__ = ["FILES", "load"]

IMAGES_AT_ONCE = 1024
MOST_BYTES = 4 << 20
"""Of one image; published ones have some 10 kB."""
SUFFIXES = (".jpg", ".jpeg")

DRIVE = "https://drive.usercontent.google.com/download?export=download&confirm=t&id="

FILES = (
    RemoteFile(
        name="img_align_celeba.zip",
        size=1_443_490_838,
        md5="00d2c5bc6d35e252742224ab0c1e8fcb",
        urls=(
            f"{DRIVE}0B7EVK8r0v71pZjFTYXZWM3FlRnM",
            "https://s3-us-west-1.amazonaws.com/udacity-dlnfd/datasets/celeba.zip",
        ),
    ),
    RemoteFile(
        name="list_attr_celeba.txt",
        size=26_721_026,
        md5="75e246fa4810816ffd6ee81facbd244c",
        urls=(f"{DRIVE}0B7EVK8r0v71pblRyaVFSWGxPY0U",),
    ),
)
ATTRIBUTES = FILES[1].name

WIDTH, LARGEST = 178, 1024
"""Of the published images, and of those that are made of them, in pixels."""


def load(path: str | Path | None = None, crop: int = 148, size: int = 64) -> Dataset:
    """CelebA, as published, or from the zip or the folder of images at `path`.

    Args:
        path: None fetches the images and attributes. Otherwise the zip, or a folder with the zip
            or the images; `list_attr_celeba.txt` is used where it lies there or beside.
        crop: The side of the square cut out of the middle, in pixels of the original.
        size: The side of the images, in pixels.
    """
    if not (1 <= crop <= WIDTH and 1 <= size <= LARGEST):
        raise DataError(
            f"crop must be between 1 and {WIDTH} pixels and size between 1 and {LARGEST}, but got "
            f"{crop=}, {size=}"
        )
    given = None if path is None else _given(Path(path))
    work = partial(convert, crop=crop, size=size)
    images, facts = prepare("celeba", fetching(FILES), given, work, f"images-{crop}-{size}")
    files = tuple(facts["files"].tolist())
    labels = _labels(facts) if "classes" in facts else None
    return Dataset(
        "celeba",
        Bytes(images[: len(files)]),
        labels=labels,
        files=files,
        skipped=tuple(facts["skipped"].tolist()),
    )


def _labels(facts: Facts) -> Labels:
    names = facts["attributes"].tolist()
    axes = tuple(Factor(name, ("no", "yes"), categorical=True) for name in names)
    return Labels(axes, facts["classes"].astype(np.int64))


def _given(path: Path) -> list[Path]:
    pictures = []
    if path.is_dir():
        pictures = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    found = pictures or find_files(path, [FILES[0].name])
    beside = [path.parent / ATTRIBUTES, path / ATTRIBUTES]
    return found + [file for file in beside if file.is_file()][-1:]


def convert(sources: Sequence[Path], place: Path, crop: int, size: int) -> Facts:
    """Write all images that can be read; the facts are their names, attributes, and the failures.

    The array is as long as there are files; images beyond the last one written are void.
    """
    tables = [path for path in sources if path.name == ATTRIBUTES]
    pictures = [path for path in sources if path.name != ATTRIBUTES]
    files: list[str] = []
    skipped: list[str] = []
    with _opened(pictures) as (names, read):
        if not names:
            raise DataError(f"{pictures[0]} should hold JPEG images, but has none; get it again")
        decode = partial(_decode, crop=crop, size=size)
        with whole_array(place, (len(names), size, size, 3)) as out, ThreadPoolExecutor() as pool:
            for batch in track(batches(names, IMAGES_AT_ONCE), "reading CelebA"):
                results = pool.map(decode, [read(name) for name in batch])
                for name, result in zip(batch, results, strict=True):
                    if isinstance(result, str):
                        skipped.append(f"{Path(name).name}: {result}")
                    else:
                        out[len(files)] = result
                        files.append(Path(name).name)
            if not files:
                raise DataError(f"{pictures[0]} has no usable image ({skipped[0]}); get it again")
    facts = {"files": np.array(files), "skipped": np.array(skipped, dtype=np.str_)}
    return facts | (_attributes(tables[0], files) if tables else {})


@contextmanager
def _opened(pictures: Sequence[Path]) -> Iterator[tuple[list[str], Callable[[str], bytes]]]:
    """The names of the images in a zip or among files, sorted, and what reads one of them."""
    if pictures[0].suffix.lower() in SUFFIXES:
        yield [str(path) for path in pictures], _read_picture
        return
    with reading(pictures[0]), zipfile.ZipFile(pictures[0]) as archive:
        names = sorted(name for name in archive.namelist() if _is_picture(Path(name)))
        yield names, partial(_read_member, archive)


def _read_picture(name: str) -> bytes:
    """A file's content; nothing where it cannot be read, which is no image either."""
    try:
        return read_file(Path(name), MOST_BYTES)
    except (OSError, ValueError):
        return b""


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member's content; nothing where it is damaged, which is no image either."""
    try:
        return archive.read(name) if archive.getinfo(name).file_size <= MOST_BYTES else b""
    except BROKEN:
        return b""


def _is_picture(name: Path) -> bool:
    return name.suffix.lower() in SUFFIXES and not name.name.startswith(".")


def _decode(content: bytes, crop: int, size: int) -> np.ndarray | str:
    """An image's pixels, or why there are none."""
    try:
        with open_image(content) as image:
            return shrink(centre(image.convert("RGB"), crop), size)
    except BROKEN as error:
        return str(error)


def _attributes(path: Path, files: Sequence[str]) -> Facts:
    """The names of the attributes, and 0 or 1 for each of them and each file."""
    with reading(path):
        _, names, *rows = read_text(path).splitlines()
        table = dict(row.split(maxsplit=1) for row in rows if row.strip())
        missing = [file for file in files if file not in table]
        if missing:
            raise ValueError(f"{missing[0]} is not in it")
        signs = np.array([table[file].split() for file in files], dtype=np.int8)
        attributes = np.array(names.split())
        if signs.shape[1:] != attributes.shape or not np.isin(signs, (-1, 1)).all():
            raise ValueError(f"each image should have -1 or 1 for {len(attributes)} attributes")
    return {"attributes": attributes, "classes": (signs > 0).astype(np.uint8)}
