"""CelebA: 202,599 faces of celebrities, with 40 attributes each.

The published files are a zip of JPEG images of aligned faces, 178 × 218 pixels, and a text file of
attributes. Each image is cropped to its central square and resized. Files that cannot be read are
skipped and listed in `Dataset.skipped`.

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

from unweave.data.archives import READ_ERRORS, batches, read_file, reading
from unweave.data.cached_files import whole_array
from unweave.data.catalog import DATASETS
from unweave.data.dataset import Dataset
from unweave.data.grid import Factor, Labels
from unweave.data.pictures import centre, open_image, shrink
from unweave.data.published import Metadata, find_files, prepare
from unweave.data.stores import Bytes
from unweave.errors import DataError
from unweave.io.plain_data import read_text
from unweave.progress import track

__all__ = ["load"]

BATCH = 1024
MAX_BYTES = 4 << 20
"""Largest image file, in bytes; published ones are about 10 kB."""
SUFFIXES = (".jpg", ".jpeg")

ATTRIBUTES = "list_attr_celeba.txt"

WIDTH, MAX_SIZE = 178, 1024
"""Width of the published images and largest `size`, in pixels."""


def load(path: str | Path | None = None, crop: int = 148, size: int = 64) -> Dataset:
    """Load CelebA from the published files, or from a zip or folder of images at `path`.

    Args:
        path: Zip, or folder with the zip or the images (default: download the published files).
            `list_attr_celeba.txt` is read from the same folder or its parent, if it exists.
        crop: Side of the central square to crop, in pixels of the original (default 148).
        size: Side of the resized images, in pixels (default 64).
    """
    if not (1 <= crop <= WIDTH and 1 <= size <= MAX_SIZE):
        raise DataError(
            f"crop must be between 1 and {WIDTH} and size between 1 and {MAX_SIZE} pixels, got "
            f"{crop=}, {size=}",
            subject="size",
            value=(crop, size),
        )
    given = None if path is None else _find_sources(Path(path))
    work = partial(convert, crop=crop, size=size)
    images, metadata = prepare("celeba", given, work, f"images-{crop}-{size}")
    files = tuple(metadata["files"].tolist())
    labels = _labels(metadata) if "classes" in metadata else None
    skipped = tuple(metadata["skipped"].tolist())
    store = Bytes(images[: len(files)])
    return Dataset("celeba", store, labels=labels, files=files, skipped=skipped)


def _labels(metadata: Metadata) -> Labels:
    names = metadata["attributes"].tolist()
    axes = tuple(Factor(name, ("no", "yes"), categorical=True) for name in names)
    return Labels(axes, metadata["classes"].astype(np.int64))


def _find_sources(path: Path) -> list[Path]:
    pictures = []
    if path.is_dir():
        pictures = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    found = pictures or find_files(path, [DATASETS["celeba"].files[0].name])
    attributes = [path.parent / ATTRIBUTES, path / ATTRIBUTES]
    return found + [file for file in attributes if file.is_file()][-1:]


def convert(sources: Sequence[Path], target: Path, crop: int, size: int) -> Metadata:
    """Write all readable images and return their names, their attributes and the failures.

    The array has one entry per file; entries after the last written image are unused.
    """
    tables = [path for path in sources if path.name == ATTRIBUTES]
    pictures = [path for path in sources if path.name != ATTRIBUTES]
    files: list[str] = []
    skipped: list[str] = []
    with _opened(pictures) as (names, read):
        if not names:
            raise DataError(
                f"{pictures[0]} has no JPEG images; download the published file again",
                subject=pictures[0],
                value=0,
            )
        decode = partial(_decode, crop=crop, size=size)
        with whole_array(target, (len(names), size, size, 3)) as out, ThreadPoolExecutor() as pool:
            for batch in track(batches(names, BATCH), "reading CelebA"):
                results = pool.map(decode, [read(name) for name in batch])
                for name, result in zip(batch, results, strict=True):
                    if isinstance(result, str):
                        skipped.append(f"{Path(name).name}: {result}")
                    else:
                        out[len(files)] = result
                        files.append(Path(name).name)
            if not files:
                raise DataError(
                    f"{pictures[0]} has no readable image ({skipped[0]}); download it again",
                    subject=pictures[0],
                    value=skipped,
                )
    metadata = {"files": np.array(files), "skipped": np.array(skipped, dtype=np.str_)}
    return metadata | (_attributes(tables[0], files) if tables else {})


@contextmanager
def _opened(pictures: Sequence[Path]) -> Iterator[tuple[list[str], Callable[[str], bytes]]]:
    """Yield the sorted names of the images in a zip or folder, and a function that reads one."""
    if pictures[0].suffix.lower() in SUFFIXES:
        yield [str(path) for path in pictures], _read_picture
        return
    with reading(pictures[0]), zipfile.ZipFile(pictures[0]) as archive:
        names = sorted(name for name in archive.namelist() if _is_picture(Path(name)))
        yield names, partial(_read_member, archive)


def _read_picture(name: str) -> bytes:
    """Read a file; return empty bytes if that fails, so that it is skipped as an invalid image."""
    try:
        return read_file(Path(name), MAX_BYTES)
    except (OSError, ValueError):
        return b""


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a member; return empty bytes if it is damaged, so that it is skipped as well."""
    try:
        return archive.read(name) if archive.getinfo(name).file_size <= MAX_BYTES else b""
    except READ_ERRORS:
        return b""


def _is_picture(name: Path) -> bool:
    return name.suffix.lower() in SUFFIXES and not name.name.startswith(".")


def _decode(content: bytes, crop: int, size: int) -> np.ndarray | str:
    """Return the pixels of an image, or the reason why it cannot be decoded."""
    try:
        with open_image(content) as image:
            return shrink(centre(image.convert("RGB"), crop), size)
    except READ_ERRORS as error:
        return str(error)


def _attributes(path: Path, files: Sequence[str]) -> Metadata:
    """Read the attribute names and the attributes of each file, as 0 or 1."""
    with reading(path):
        _, names, *rows = read_text(path).splitlines()
        table = dict(row.split(maxsplit=1) for row in rows if row.strip())
        missing = [file for file in files if file not in table]
        if missing:
            raise ValueError(f"it has no row for {missing[0]}")
        signs = np.array([table[file].split() for file in files], dtype=np.int8)
        attributes = np.array(names.split())
        if signs.shape[1:] != attributes.shape or not np.isin(signs, (-1, 1)).all():
            raise ValueError(f"each row must have {len(attributes)} attributes, each -1 or 1")
    return {"attributes": attributes, "classes": (signs > 0).astype(np.uint8)}
