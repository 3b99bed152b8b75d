"""Your own images as a data set: a folder of pictures, a file of arrays, or an array in Python."""

import logging
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import Image, UnidentifiedImageError

from unweave.data.array_files import READERS
from unweave.data.arrays import as_images, as_store
from unweave.data.dataset import Dataset
from unweave.data.grid import Labels
from unweave.data.pictures import SUFFIXES, read_square, square
from unweave.data.tables import arrange, factor_table
from unweave.data.torch_datasets import images_and_labels, is_torch_dataset
from unweave.errors import DataError
from unweave.io.paths import path_errors
from unweave.progress import track
from unweave.text import readable

__all__ = ["SIZES", "from_array", "from_path"]

SIZES = (32, 64, 128)

Item = TypeVar("Item")
Result = TypeVar("Result")


def from_path(
    path: str | Path,
    size: int | None = None,
    channels: int | None = None,
    factors: Any = None,
    name: str | None = None,
    fewest: int = 2,
) -> Dataset:
    """Load a folder of images, or an array from a `.npy`, `.npz`, `.h5` or `.hdf5` file.

    A folder is searched for PNG, JPEG, WebP, BMP, GIF and TIFF files, subfolders included, hidden
    files not. Images are turned upright as their EXIF data says, laid on white where they are
    transparent, resized so that the shorter side is `size`, and cropped to the centre square.
    Files that cannot be read are left out and listed in `Dataset.skipped`.

    Args:
        path: The folder or file.
        size: 32, 64 or 128 pixels a side; by default 64, or an array's own if it is one
            of these.
        channels: 1 makes all images grey, 3 makes all coloured; by default they stay as they are.
        factors: What made each image: the path of a CSV file, a mapping of names to columns, an
            array `[N, K]` or a data frame. See `unweave.data.tables.factor_table`.
        name: By default the name of the folder or file.
        fewest: Fewer images than these are an error.

    Returns:
        The images in the order of their paths; in grid order where the factors form a whole grid.

    Example:
        A folder and a table of factors::

            data = from_path("photos", size=64, factors="photos.csv")
            data.files[0], data.skipped
    """
    _check_options(size, channels)
    with path_errors(Path(path), "read"):
        path = Path(path).expanduser()
        folder, there = path.is_dir(), path.exists()
    name = name or readable(path.resolve().name if folder else path.stem)
    if folder:
        return _from_folder(path, size or 64, channels, factors, name, fewest)
    if not there:
        raise DataError(f"there is no file or folder {str(path)!r}; check the path")
    if path.suffix.lower() not in READERS:
        raise DataError(
            f"{path} is neither a folder of images nor a file ending in {', '.join(READERS)}; "
            "give one of these"
        )
    array = READERS[path.suffix.lower()](path)
    return from_array(array, size, channels, factors, name, fewest)


def from_array(
    array: Any,
    size: int | None = None,
    channels: int | None = None,
    factors: Any = None,
    name: str = "images",
    fewest: int = 2,
) -> Dataset:
    """Take a NumPy or torch array of images as a data set, or a dataset of torch.

    Shapes are `[N, H, W]`, `[N, H, W, C]` or `[N, C, H, W]` with 1 or 3 channels; where both of
    the latter fit, the last axis is the channels. Values are bytes, whole numbers 0 … 255,
    booleans, or floats in [0, 1]. Whole numbers that are all 0 or 1, and not all the same, are
    taken as binary images: 1 becomes 255.

    Square images of 32, 64 or 128 pixels stay as they are; all others are resized and cropped as
    in `from_path`. Bytes that stay as they are share their memory with `array`.

    A map-style dataset of torch, or a `DataLoader` of one, is read once and in order. Its items
    are images or `(image, label)`; labels that are integers become the factor `label`.

    Args:
        array: The images.
        size: 32, 64 or 128 pixels a side; by default the array's own if it is one of these, or 64.
        channels: 1 makes all images grey, 3 makes all coloured; by default they stay as they are.
        factors: As in `from_path`.
        name: As in tables.
        fewest: Fewer images than these are an error.

    Example:
        >>> images = np.linspace(0, 1, 2 * 64 * 64).reshape(2, 64, 64)
        >>> data = from_array(images, factors={"brightness": [0.25, 0.75]})
        >>> data.shape, data[1].max(), data.grid.axes[0].values
        ((64, 64, 1), np.uint8(255), (0.25, 0.75))
    """
    _check_options(size, channels)
    if is_torch_dataset(array):
        array, labels = images_and_labels(array, name)
        factors = labels if factors is None else factors
    images = as_images(array, name)
    _check_count(len(images), fewest, name)
    height, width, depth = images.shape[1:]
    fits = height == width and height in SIZES and size in (None, height)
    if not fits or channels not in (None, depth):
        images = _resized(images, height if fits else size or 64, channels or depth)
    return _dataset(name, images, factors, np.ones(len(images), dtype=bool))


def _from_folder(
    folder: Path, size: int, channels: int | None, factors: Any, name: str, fewest: int
) -> Dataset:
    files = _image_files(folder)
    images = np.empty((0, size, size, 0), dtype=np.uint8)
    kept = np.zeros(len(files), dtype=bool)
    skipped: list[str] = []
    first = None
    read = partial(_read_image, folder, size, channels)
    for place, result in enumerate(_parallel(read, files, "reading images")):
        if isinstance(result, str):
            skipped.append(readable(f"{files[place]}: {result}"))
            continue
        if first is None:
            first = files[place]
            images = np.empty((len(files), *result.shape), dtype=np.uint8)
        elif result.shape != images.shape[1:]:
            grey, coloured = first, files[place]
            if result.shape[-1] == 1:
                grey, coloured = coloured, grey
            raise DataError(
                f"{folder} mixes grey images ({grey}) and coloured ones ({coloured}); "
                "load them with channels=3 (--channels 3) to make all coloured, or 1 for grey"
            )
        images[place - len(skipped)] = result
        kept[place] = True
    if skipped:
        logging.getLogger("unweave").warning(
            "%s of %s files in %s could not be read and %s left out: %s",
            f"{len(skipped):,}",
            f"{len(files):,}",
            readable(folder),
            "was" if len(skipped) == 1 else "were",
            "; ".join(skipped[:3]) + ("; …" if len(skipped) > 3 else ""),
        )
    _check_count(int(kept.sum()), fewest, str(folder), skipped)
    shown = [readable(file) for file in files]
    return _dataset(name, images[: kept.sum()], factors, kept, files=shown, skipped=tuple(skipped))


def _image_files(folder: Path) -> list[str]:
    files = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES and not path.is_dir()
    )
    seen = [file for file in files if not any(part[0] == "." for part in file.split("/"))]
    if not seen:
        raise DataError(
            f"{folder} has no images, which are files ending in {', '.join(SUFFIXES)}; "
            "put some there or give another folder"
        )
    return seen


def _read_image(folder: Path, size: int, channels: int | None, file: str) -> np.ndarray | str:
    """The image `[size, size, C]`, or the reason why there is none."""
    path = folder / file
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file"
        if not status.st_size:
            return "the file is empty"
        return read_square(path, size, channels)
    except UnidentifiedImageError:
        return "not an image"
    except Exception as error:  # Pillow's readers raise nearly anything on broken files
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return " ".join(reason.split())


def _resized(images: np.ndarray, size: int, channels: int) -> np.ndarray:
    def read(place: int) -> np.ndarray:
        image = images[place]
        return square(
            Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image), size, channels
        )

    out = np.empty((len(images), size, size, channels), dtype=np.uint8)
    for place, image in enumerate(_parallel(read, range(len(images)), "resizing images")):
        out[place] = image
    return out


def _parallel(
    function: Callable[[Item], Result], items: Sequence[Item], job: str
) -> Iterator[Result]:
    """The function of each item, in order, computed by threads under a progress bar.

    Threads, since Pillow lets others run while it decodes; in batches, since handing over a small
    image costs as much as decoding it.
    """
    batches = [items[start : start + 8] for start in range(0, len(items), 8)]
    threads = ThreadPoolExecutor(min(8, os.cpu_count() or 1))
    with warnings.catch_warnings(), threads as pool:
        warnings.simplefilter("ignore")  # Pillow's, about odd tags in files that it reads well
        done = partial(_each, function)
        for _, results in zip(track(batches, job), pool.map(done, batches), strict=True):
            yield from results


def _each(function: Callable[[Item], Result], batch: Sequence[Item]) -> list[Result]:
    return [function(item) for item in batch]


def _dataset(
    name: str,
    images: np.ndarray,
    factors: Any,
    kept: np.ndarray,
    *,
    files: Sequence[str] = (),
    skipped: tuple[str, ...] = (),
) -> Dataset:
    store = as_store(images)
    names = tuple(file for file, good in zip(files, kept, strict=False) if good)
    if factors is None:
        return Dataset(name, store, files=names, skipped=skipped)
    known, order = arrange(*factor_table(factors, kept, files))
    if isinstance(known, Labels):
        return Dataset(name, store, labels=known, files=names, skipped=skipped)
    if np.any(np.diff(order) < 0):  # a memory-mapped array that is in order stays on disk
        store = store.take(order)
        names = tuple(names[place] for place in order) if names else ()
    return Dataset(name, store, grid=known, files=names, skipped=skipped)


def _check_options(size: int | None, channels: int | None) -> None:
    if size not in (None, *SIZES):
        raise DataError(
            f"images are made 32, 64 or 128 pixels wide, but {size=}; choose one of the three"
        )
    if channels not in (None, 1, 3):
        raise DataError(
            f"images have 1 channel (grey) or 3 (colour), but {channels=}; choose one of the two"
        )


def _check_count(count: int, fewest: int, source: str, skipped: Sequence[str] = ()) -> None:
    if count < fewest:
        lost = f" and {len(skipped):,} unreadable ({skipped[0]})" if skipped else ""
        images = "1 image" if fewest == 1 else f"{fewest} images"
        raise DataError(
            f"a data set needs at least {images}, but {source} has {count}{lost}; add some"
        )
