"""Loading of custom images: folders, stacks and array files, arrays, and data sets of others."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np
from PIL import Image

from unweave.data.array_files import READERS
from unweave.data.arrays import (
    Scale,
    as_images,
    as_store,
    images_and_labels,
    is_torch_dataset,
)
from unweave.data.dataset import Dataset
from unweave.data.grid import Labels
from unweave.data.huggingface import (
    arrays_of,
    columns_as_factors,
    image_column,
    is_hugging_face,
    is_saved,
    one_split,
    open_saved,
    rows,
)
from unweave.data.picture_sources import Outcome, Preprocessing, Source, file_source
from unweave.data.pictures import (
    BIT_DEPTHS,
    FULL_BITS,
    SUFFIXES,
    NonSquare,
    Original,
    bit_depth,
    square,
)
from unweave.data.preparation import (
    array_notes,
    clipped_note,
    copies_note,
    depth_note,
    file_notes,
    find_copies,
    skipped_note,
)
from unweave.data.tables import arrange, factor_table
from unweave.data.tiff import SUFFIXES as TIFF_SUFFIXES
from unweave.data.tiff import sources_in as tiff_sources
from unweave.data.zarr_files import is_zarr, open_zarr
from unweave.errors import DataError
from unweave.io.arguments import renamed_arguments
from unweave.io.paths import path_errors
from unweave.nets.sizes import MAX_SIDE, MIN_SIDE
from unweave.progress import track
from unweave.text import counted, printable, shown

if TYPE_CHECKING:
    import datasets

__all__ = ["from_array", "from_hugging_face", "from_path", "reads_pictures"]

SIZE = 64
"""Default side of images that are resized."""
SIDES = range(MIN_SIDE, MAX_SIDE + 1)
IMAGES_AT_ONCE = 8
"""Images of an array that are resized together."""
MAX_COPIES = 0.01
"""Share of duplicates above which loading warns."""
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".feather", ".xlsx", ".xls", ".h5ad")
TABLE_ADVICE = "; use uw.Unweaver for rows of numbers"

Item = TypeVar("Item")
Result = TypeVar("Result")


@renamed_arguments(fewest="min_images")
def from_path(
    path: str | Path,
    size: int | None = None,
    channels: int | None = None,
    factors: Any = None,
    name: str | None = None,
    min_images: int = 2,
    bits: int | None = None,
    non_square: NonSquare | None = None,
) -> Dataset:
    """Load images from a folder, a TIFF file, or a file or folder of arrays.

    A folder is searched recursively for PNG, JPEG, WebP, BMP, GIF and TIFF files, except hidden
    ones. Each page of a TIFF file that has the size and mode of the first is an image. In OME-TIFF
    and ImageJ files, planes that differ only in their channel are one image. Arrays in `.npy`,
    `.npz`, `.h5` and `.hdf5` files and Zarr folders are read as in `from_array`, and folders
    written by `datasets.Dataset.save_to_disk` as in `from_hugging_face`.

    Images are rotated according to their EXIF data, placed on white where transparent,
    resized so that the shorter side is `size`, and cropped to the central square. Files that
    cannot be read are skipped and listed in `Dataset.skipped`. `Dataset.notes` lists what was
    changed, with counts.

    Grey files with more than 8 bits share one scale: white is the largest value of the smallest
    bit depth (8, 10, 12, 14 or 16) that holds all of their values. Of 16-bit colours, only the
    upper 8 bits are used. Files of floats must be grey, with values in [0, 1].

    Args:
        path: Folder or file.
        size: Side of the images, 16 to 256 pixels (default: 64; arrays of such sizes are
            unchanged).
        channels: 1 converts all images to grey, 3 to RGB (default: unchanged).
        factors: Ground-truth factors of the images: path of a CSV file, mapping of names to
            columns, array `[N, K]` or data frame. See `unweave.data.tables.factor_table`.
        name: Name of the data set (default: name of the folder or file).
        min_images: Minimum number of images; fewer raise an error.
        bits: Bit depth of grey values with more than 8 bits: 8, 10, 12, 14 or 16 (default: from
            their largest value). Values above the scale become white.
        non_square: `"crop"` keeps the central square of other images (default), `"pad"` keeps all
            of them and fills the square with the median colour of the border.

    Returns:
        The images, in grid order if the factors form a complete grid, otherwise sorted by path.

    Example:
        Load a folder with a table of factors::

            data = from_path("photos", size=64, factors="photos.csv")
            data.files[0], data.skipped
    """
    _check_options(size, channels, bits, non_square)
    with path_errors(Path(path), "read"):
        path = Path(path).expanduser()
        folder, exists = path.is_dir(), path.exists()
    name = name or printable(path.resolve().name if folder else path.stem)
    options = Preprocessing(size or SIZE, channels, bits, non_square or "crop")
    if folder and is_saved(path):
        found = open_saved(path)
        return _from_columns(found, options, factors, name, min_images, size, saved=True)
    if folder and is_zarr(path):
        opened = open_zarr(path)
        return from_array(opened, size, channels, factors, name, min_images, bits, non_square)
    if folder:
        return _from_folder(path, options, factors, name, min_images)
    if exists and path.suffix.lower() in TIFF_SUFFIXES:
        sources = tiff_sources(path, path.name)
        return _from_sources(path, sources, options, factors, name, min_images)
    if not exists:
        raise DataError(
            f"file or folder {str(path)!r} does not exist; check the path", subject=path
        )
    if path.suffix.lower() not in READERS:
        raise DataError(
            f"{path} must be a folder of images or a file ending in "
            f"{', '.join([*READERS, *TIFF_SUFFIXES])}, "
            f"got {path.suffix or 'no suffix'}"
            + (TABLE_ADVICE if path.suffix.lower() in TABLES else ""),
            subject=path,
            value=path.suffix,
        )
    array = READERS[path.suffix.lower()](path)
    return from_array(array, size, channels, factors, name, min_images, bits, non_square)


@renamed_arguments(fewest="min_images")
def from_array(
    array: Any,
    size: int | None = None,
    channels: int | None = None,
    factors: Any = None,
    name: str = "images",
    min_images: int = 2,
    bits: int | None = None,
    non_square: NonSquare | None = None,
) -> Dataset:
    """Create a data set from a NumPy or Zarr array, torch tensor or torch dataset of images.

    Shapes are `[N, H, W]`, `[N, H, W, C]` or `[N, C, H, W]` with any number of channels. If either
    of two axes may hold the channels, unweave takes the one of size 1 or 3, else the shorter one,
    else the last. Values are integers 0 … 255, booleans, or floats in [0, 1]. Integers that are
    all 0 or 1, with both present, are treated as binary images: 1 becomes 255. Larger values of
    type uint16 are scaled as in files (see `from_path`).

    Images must have at least 8 pixels on each side; arrays with smaller axes are rejected as
    tables, time series or single images. Images of 16 to 256 pixels on each side are left
    unchanged, unless `size` asks for another size; all others are resized and cropped as in
    `from_path`. Unchanged bytes share memory with `array`.

    Memory-mapped and Zarr arrays that are too large for memory stay on disk, unless their images
    are resized.

    A map-style torch dataset, or a `DataLoader` of one, is read once and in order. Its items
    are images or tuples `(image, label)`; integer labels become the factor `label`.

    Args:
        array: Images.
        size: Side of the images, 16 to 256 pixels (default: unchanged, or 64 if the images are
            smaller or larger).
        channels: 1 converts all images to grey, 3 to RGB (default: unchanged).
        factors: Ground-truth factors, as in `from_path`.
        name: Name of the data set.
        min_images: Minimum number of images; fewer raise an error.
        bits: Bit depth of integers other than bytes: 8, 10, 12, 14 or 16 (default: from the
            largest value, if that is more than 255). Values above the scale become white.
        non_square: What to do with images that are not square if they are resized, as in
            `from_path`.

    Example:
        >>> images = np.linspace(0, 1, 2 * 64 * 64).reshape(2, 64, 64)
        >>> data = from_array(images, factors={"brightness": [0.25, 0.75]})
        >>> data.shape, data[1].max(), data.grid.axes[0].values
        ((64, 64, 1), np.uint8(255), (0.25, 0.75))
    """
    _check_options(size, channels, bits, non_square)
    if is_torch_dataset(array):
        array, labels = images_and_labels(array, name)
        factors = labels if factors is None else factors
    images, scale = as_images(array, name, bits)
    _check_count(len(images), min_images, name)
    height, width, depth = images.shape[1:]
    if channels not in (None, depth) and depth not in (1, 3):
        raise DataError(
            f"only images with 1 or 3 channels can be converted to channels={channels}, got "
            f"{depth} channels; omit channels",
            subject="channels",
            value=depth,
        )
    kept = height in SIDES and width in SIDES if size is None else height == width == size
    sides = (height, width) if kept else (size or SIZE, size or SIZE)
    shape = (*sides, channels or depth)
    non_square = non_square or "crop"
    if shape != images.shape[1:]:
        images = _changed(images, shape, non_square)
    notes = _scale_notes(scale, len(images), name)
    notes += array_notes((height, width), sides, non_square)
    return _dataset(
        name,
        images,
        factors,
        np.ones(len(images), dtype=bool),
        notes=notes,
        bits=scale.bits if scale else None,
        non_square=non_square,
    )


def reads_pictures(source: Any) -> bool:
    """Whether the images of a source are decoded like files, not taken from an array."""
    if is_hugging_face(source):
        return True
    if not isinstance(source, str | Path):
        return False
    with path_errors(Path(source), "read"):
        path = Path(source).expanduser()
        if path.is_dir():
            return not is_zarr(path)
        return path.suffix.lower() in TIFF_SUFFIXES and path.exists()


def from_hugging_face(
    dataset: Any,
    size: int | None = None,
    channels: int | None = None,
    factors: Any = None,
    name: str = "images",
    min_images: int = 2,
    bits: int | None = None,
    non_square: NonSquare | None = None,
) -> Dataset:
    """Load the images of a Hugging Face data set.

    A column of type `Image` is read like the files of a folder, one of type `Array2D` or `Array3D`
    like an array. If there are several, the one called `image` or `img` is read.

    Args:
        dataset: A `datasets.Dataset`, or a `DatasetDict` with one split.
        size: Side of the images, as in `from_path` and `from_array`.
        channels: 1 converts all images to grey, 3 to RGB (default: unchanged).
        factors: Name of a column or list of names, or a table as in `from_path`. Class labels
            become text.
        name: Name of the data set.
        min_images: Minimum number of images; fewer raise an error.
        bits: Bit depth of grey values with more than 8 bits, as in `from_path`.
        non_square: What to do with images that are not square, as in `from_path`.

    Example:
        Load images with their labels::

            table = datasets.Dataset.from_dict({"image": pictures, "label": labels})
            data = from_hugging_face(table, factors="label")
    """
    _check_options(size, channels, bits, non_square)
    options = Preprocessing(size or SIZE, channels, bits, non_square or "crop")
    return _from_columns(one_split(dataset), options, factors, name, min_images, size)


def _from_columns(
    dataset: "datasets.Dataset",
    options: Preprocessing,
    factors: Any,
    name: str,
    min_images: int,
    size: int | None,
    saved: bool = False,
) -> Dataset:
    """Load the images of a Hugging Face data set; `size` is that of arrays, None to keep it."""
    column = image_column(dataset)
    factors = columns_as_factors(dataset, factors)
    arrays = arrays_of(dataset, column)
    if arrays is not None:
        _, channels, bits, non_square = options
        return from_array(arrays, size, channels, factors, name, min_images, bits, non_square)
    sources = rows(dataset, column, name, saved)
    return _from_sources(name, sources, options, factors, name, min_images, "image")


def _scale_notes(scale: Scale | None, total: int, name: str) -> list[str]:
    """Return sentences about the scale of integers of more than 8 bits."""
    if scale is None:
        return []
    where = f"image {scale.place}"
    notes = [depth_note("the values", scale.bits, scale.largest, where)]
    if scale.clipped:
        clipped = [f"image {place}" for place in scale.clipped]
        notes += _warned(name, clipped_note(clipped, total, scale.bits))
    return notes


def _warned(name: str, note: str) -> list[str]:
    """Log a sentence about images as a warning, and return it in a list."""
    logging.getLogger("unweave").warning("%s: %s", name, note)
    return [note]


def _from_folder(
    folder: Path, options: Preprocessing, factors: Any, name: str, min_images: int
) -> Dataset:
    files = _image_files(folder)
    if not any(file.lower().endswith(TIFF_SUFFIXES) for file in files):
        sources = [file_source(folder / file, file) for file in files]
    else:
        parts = _parallel(partial(_sources_in, folder), files, "finding images")
        sources = [source for part in parts for source in part]
    return _from_sources(folder, sources, options, factors, name, min_images)


def _sources_in(folder: Path, file: str) -> list[Source]:
    tiff = file.lower().endswith(TIFF_SUFFIXES)
    return tiff_sources(folder / file, file) if tiff else [file_source(folder / file, file)]


def _from_sources(
    place: str | Path,
    sources: Sequence[Source],
    options: Preprocessing,
    factors: Any,
    name: str,
    min_images: int,
    unit: str | None = None,
) -> Dataset:
    """Read images from files, pages or rows.

    Args:
        place: Where they are, for messages.
        sources: Images that are read together.
        options: How they are prepared.
        factors: Table of factors, see `from_path`.
        name: Name of the data set.
        min_images: Minimum number of images.
        unit: What a name of an image is a name of (default: a file, or an image if a file has
            several).
    """
    files = [each for source in sources for each in source.names]
    unit = unit or ("file" if len(files) == len(sources) else "image")
    images = np.empty((0, options.size, options.size, 0), dtype=np.uint8)
    kept = np.zeros(len(files), dtype=bool)
    skipped: list[str] = []
    originals: list[Original] = []
    first = ""
    outcomes = _each_image(sources, options, "reading images")
    for index, (file, found) in enumerate(zip(files, outcomes, strict=True)):
        if isinstance(found, str):
            skipped.append(printable(f"{file}: {found}"))
            continue
        result, original = found
        if not originals:
            first = file
            images = np.empty((len(files), *result.shape), dtype=np.uint8)
        elif result.shape != images.shape[1:]:
            raise _mixed(place, {images.shape[-1]: first, result.shape[-1]: file})
        images[index - len(skipped)] = result
        originals.append(original)
        kept[index] = True
    if skipped:
        logging.getLogger("unweave").warning(
            "%s of %s in %s could not be read and %s skipped: %s",
            f"{len(skipped):,}",
            counted(len(files), unit),
            printable(place),
            "was" if len(skipped) == 1 else "were",
            "; ".join(skipped[:3]) + ("; …" if len(skipped) > 3 else ""),
        )
    _check_count(int(kept.sum()), min_images, place, skipped)
    images = images[: kept.sum()]
    deep = [one.largest for one in originals if one.largest is not None]
    bits = (options.bits or bit_depth(max(deep))) if deep else None
    if bits not in (None, options.bits or FULL_BITS):
        _rescale(images, place, sources, options._replace(bits=bits), kept, originals)
    names = [printable(file) for file in files]
    used = [file for file, is_kept in zip(names, kept, strict=True) if is_kept]
    notes = [skipped_note(skipped, len(files), unit)] if skipped else []
    clipped = [file for file, one in zip(used, originals, strict=True) if one.clipped]
    if clipped and bits:
        notes += _warned(name, clipped_note(clipped, len(used), bits))
    notes += file_notes(used, originals, options.size, options.non_square, bits, unit)
    return _dataset(
        name,
        images,
        factors,
        kept,
        files=names,
        skipped=tuple(skipped),
        notes=notes,
        bits=bits,
        non_square=options.non_square,
    )


def _each_image(sources: Sequence[Source], options: Preprocessing, job: str) -> Iterator[Outcome]:
    """Yield every image in order, or why it cannot be read."""

    def read(source: Source) -> list[Outcome]:
        try:
            return source.read(options)
        except Exception as error:  # as in `attempted`, but of a file with several images
            return [" ".join(str(error).split()) or type(error).__name__] * len(source.names)

    return chain.from_iterable(_parallel(read, sources, job))


def _mixed(place: str | Path, example: Mapping[int, str]) -> DataError:
    """Return the error about images with different numbers of channels."""
    if set(example) != {1, 3}:
        (few, one), (many, other) = sorted(example.items())
        return DataError(
            f"{place} mixes images with {counted(few, 'channel')} ({one}) and {many} channels "
            f"({other}); put them into separate folders",
            subject=place,
            value=(one, other),
        )
    return DataError(
        f"{place} mixes grey images ({example[1]}) and colour images ({example[3]}); "
        "use channels=3 (--channels 3) to convert all to colour, or 1 for grey",
        subject=place,
        value=(example[1], example[3]),
    )


def _rescale(
    images: np.ndarray,
    place: str | Path,
    sources: Sequence[Source],
    options: Preprocessing,
    kept: np.ndarray,
    originals: Sequence[Original],
) -> None:
    """Read grey images with more than 8 bits again, scaled by their common bit depth.

    The depth is known only after the first time. Keeping the pixels would take too much memory.
    """
    rows = np.cumsum(kept) - 1
    starts = np.cumsum([0, *(len(source.names) for source in sources)])
    again = []
    for source, start in zip(sources, starts[:-1], strict=True):
        own = [index for index in range(start, start + len(source.names)) if kept[index]]
        if any(originals[rows[index]].largest is not None for index in own):
            again.append((source, start))
    parts = [range(start, start + len(source.names)) for source, start in again]
    outcomes = _each_image([source for source, _ in again], options, "scaling grey values")
    for index, found in zip(chain.from_iterable(parts), outcomes, strict=True):
        if not kept[index]:
            continue
        original = originals[rows[index]]
        if isinstance(found, str) or found[1] != original:
            file = [name for source in sources for name in source.names][index]
            raise DataError(
                f"{printable(file)} changed while {printable(place)} was read; load it again",
                subject=place,
                value=file,
            )
        images[rows[index]] = found[0]


def _image_files(folder: Path) -> list[str]:
    files = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES and not path.is_dir()
    )
    visible = [file for file in files if not any(part[0] == "." for part in file.split("/"))]
    if not visible:
        raise DataError(
            f"{folder} has no image files ({', '.join(SUFFIXES)}); add some or use another folder",
            subject=folder,
        )
    return visible


def _changed(images: Any, shape: tuple[int, int, int], non_square: NonSquare) -> np.ndarray:
    """Convert the channels of images, then crop and resize them to `[H, W, C]`."""
    height, width, channels = shape
    same_size = images.shape[1:3] == (height, width)

    def convert(image: np.ndarray) -> np.ndarray:
        if image.shape[-1] not in (1, 3):
            planes = np.moveaxis(image, -1, 0)
            return np.concatenate(
                [square(Image.fromarray(one), height, 1, non_square) for one in planes], -1
            )
        picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
        if same_size:
            return np.asarray(picture.convert("L" if channels == 1 else "RGB")).reshape(shape)
        return square(picture, height, channels, non_square)

    def read(start: int) -> list[np.ndarray]:
        return [convert(image) for image in images[start : start + IMAGES_AT_ONCE]]

    out = np.empty((len(images), *shape), dtype=np.uint8)
    starts = range(0, len(images), IMAGES_AT_ONCE)
    resized = chain.from_iterable(_parallel(read, starts, "resizing images"))
    for index, image in enumerate(resized):
        out[index] = image
    return out


def _parallel(
    function: Callable[[Item], Result], items: Sequence[Item], job: str
) -> Iterator[Result]:
    """Apply a function to each item in threads, and yield the results in order.

    Threads suffice because Pillow releases the GIL while decoding. Items are passed in batches
    because handing over a small image costs as much as decoding it.
    """
    batches = [items[start : start + 8] for start in range(0, len(items), 8)]
    threads = ThreadPoolExecutor(min(8, os.cpu_count() or 1))
    with warnings.catch_warnings(), threads as pool:
        warnings.simplefilter("ignore")  # Pillow warns about odd tags in files that it can read
        done = partial(_each, function)
        for _, results in zip(track(batches, job), pool.map(done, batches), strict=True):
            yield from results


def _each(function: Callable[[Item], Result], batch: Sequence[Item]) -> list[Result]:
    return [function(item) for item in batch]


def _dataset(
    name: str,
    images: Any,
    factors: Any,
    kept: np.ndarray,
    *,
    files: Sequence[str] = (),
    skipped: tuple[str, ...] = (),
    notes: Sequence[str] = (),
    bits: int | None = None,
    non_square: NonSquare = "crop",
) -> Dataset:
    store = as_store(images)
    names = tuple(file for file, is_kept in zip(files, kept, strict=False) if is_kept)
    data = Dataset(
        name,
        store,
        files=names,
        skipped=skipped,
        notes=(*_copies_notes(images, names, name), *notes),
        bits=bits,
        non_square=non_square,
    )
    if factors is None:
        return data
    known, order = arrange(*factor_table(factors, kept, files))
    if isinstance(known, Labels):
        return replace(data, labels=known)
    if np.any(np.diff(order) < 0):  # a sorted memory-mapped array stays on disk
        store = store.take(order)
        names = tuple(names[index] for index in order) if names else ()
    return replace(data, store=store, grid=known, files=names)


def _copies_notes(images: Any, files: Sequence[str], name: str) -> list[str]:
    """Return a sentence about duplicates, if any; warn if there are many."""
    copies = find_copies(images)
    if copies is None:
        return []
    note = copies_note(copies, len(images), files)
    return _warned(name, note) if copies.num_copies > MAX_COPIES * len(images) else [note]


def _check_options(
    size: int | None, channels: int | None, bits: int | None, non_square: str | None
) -> None:
    if size is not None and not (isinstance(size, Integral) and size in SIDES):
        raise DataError(
            f"size must be between {MIN_SIDE} and {MAX_SIDE} pixels, got {size}",
            subject="size",
            value=size,
        )
    if channels not in (None, 1, 3):
        raise DataError(
            f"channels must be 1 (grey) or 3 (colour), got {channels}",
            subject="channels",
            value=channels,
        )
    if bits is not None and not (isinstance(bits, Integral) and bits in BIT_DEPTHS):
        raise DataError(
            f"bits must be one of {', '.join(map(str, BIT_DEPTHS))}, got {bits}",
            subject="bits",
            value=bits,
        )
    if non_square is not None and non_square not in get_args(NonSquare):
        raise DataError(
            f"non_square must be 'crop' or 'pad', got {shown(non_square)}",
            subject="non_square",
            value=non_square,
        )


def _check_count(
    count: int, min_images: int, source: str | Path, skipped: Sequence[str] = ()
) -> None:
    if count < min_images:
        unreadable = f" and {len(skipped):,} unreadable ({skipped[0]})" if skipped else ""
        images = "1 image" if min_images == 1 else f"{min_images} images"
        raise DataError(
            f"{source} must have at least {images}, got {count}{unreadable}; add more",
            subject=source,
            value=count,
        )
