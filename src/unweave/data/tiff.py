"""TIFF files with several images: pages, and stacks of microscopes with axes and channels.

Pillow reads plain pages. The metadata of OME-TIFF and ImageJ files says which planes are channels
of the same image; tifffile (extra `tiff`) reads these files. Files are untrusted: they cannot name
other files, and XML that defines entities is rejected before it is parsed.

Shapes: an image is `[H, W, C]`.
"""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from unweave.data.picture_sources import (
    Outcome,
    Preprocessing,
    Source,
    attempted,
    check_regular,
    file_source,
)
from unweave.data.pictures import MAX_PIXELS, Original, open_picture, read_levels, read_pages
from unweave.errors import UnweaveError
from unweave.io.extras import import_extra

if TYPE_CHECKING:
    import tifffile

__all__ = ["SUFFIXES", "sources_in"]

SUFFIXES = (".tif", ".tiff")
MAX_IMAGES = 1_000_000
"""Largest number of images in a file."""
IMAGES_AT_ONCE = 64
"""Images read each time a file is opened: finding a page takes time for each page before it."""
MAX_VALUES = 4 * MAX_PIXELS
"""Largest number of values of an image, over all channels."""
DESCRIPTION = 270
"""Tag of the metadata."""
MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
IMAGEJ = re.compile(r"ImageJ=[\s\S]*?\bimages=(\d+)")
ENTITIES = re.compile(r"<!\s*(DOCTYPE|ENTITY)", re.IGNORECASE)
FORMATS = ("ome", "imagej", "shaped")
"""Formats whose metadata is used. Some of the others read further files."""
CHANNELS, PIXELS = "CS", "YX"


def sources_in(path: Path, name: str) -> list[Source]:
    """Return the images of a TIFF file; a broken file is one image that cannot be read.

    Args:
        path: Path of the file.
        name: Name of the file in names of images, which are `name[0]`, `name[1]` … if there are
            several.
    """
    try:
        check_regular(path)
        with open_picture(path) as image:
            if image.format != "TIFF":
                return [file_source(path, name)]
            description = str(image.tag_v2.get(DESCRIPTION, ""))  # type: ignore[attr-defined]
            pages, total = _alike_pages(image)
    except UnidentifiedImageError:
        return _unusual(path, name)
    except Exception:  # Pillow raises nearly anything for broken files
        return [file_source(path, name)]
    if (_is_ome(description) and total > 1) or _imagej_images(description) > 1:
        return _stack(path, name)
    if total == 1:
        return [file_source(path, name)]
    read = partial(_read_pages, path, len(pages) < total)
    return _split(name, pages, read)


def _alike_pages(image: Image.Image) -> tuple[list[int], int]:
    """Return the pages that have the size and mode of the first, and the number of all pages."""
    alike, total, first = [], 0, (image.size, image.mode)
    while total < MAX_IMAGES:
        try:
            image.seek(total)
        except EOFError:
            break
        if (image.size, image.mode) == first:
            alike.append(total)
        total += 1
    return alike, total


def _split(name: str, places: Sequence[int], read: Any) -> list[Source]:
    """Divide the images of a file into sources of a few images each."""
    names = [f"{name}[{index}]" for index in range(len(places))] if len(places) > 1 else [name]
    starts = range(0, len(places), IMAGES_AT_ONCE)
    parts = [slice(start, start + IMAGES_AT_ONCE) for start in starts]
    return [Source(tuple(names[part]), partial(read, places[part])) for part in parts]


def _read_pages(
    path: Path, others: bool, pages: Sequence[int], options: Preprocessing
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for read in read_pages(path, pages, *options):
        found = attempted(read)
        if others and not isinstance(found, str):
            found = found[0], found[1]._replace(other_pages=True)
        outcomes.append(found)
    return outcomes


def _is_ome(description: str) -> bool:
    return description.rstrip("\0 \n")[-10:].endswith("OME>")


def _imagej_images(description: str) -> int:
    found = IMAGEJ.match(description)
    return int(found[1][:9]) if found else 1


def _unusual(path: Path, name: str) -> list[Source]:
    """Return the images of a file that Pillow cannot read, such as one with two channels."""
    with path.open("rb") as file:
        if file.read(4) not in MAGIC:
            return [file_source(path, name)]
    try:
        return _stack(path, name)
    except UnweaveError:
        reason = "Pillow cannot read it, but tifffile may: pip install 'unweave[tiff]'"
        return [Source((name,), lambda _: [reason])]


def _stack(path: Path, name: str) -> list[Source]:
    import_extra("tifffile", "tifffile", "tiff", f"reads {path.name}")
    try:
        with _opened(path) as series:
            layout = _Layout.of(series)
    except Exception as error:  # tifffile, too, raises nearly anything for broken files
        reason = " ".join(str(error).split()) or type(error).__name__
        return [Source((name,), lambda _: [reason])]
    return _split(name, range(layout.num_images), partial(_read_stack, path, layout))


@contextmanager
def _opened(path: Path) -> "Iterator[tifffile.TiffPageSeries]":
    """Open the first series of images of a file; others are thumbnails or other views."""
    import tifffile

    unused: dict[str, Any] = {
        f"is_{kind}": False for kind in tifffile.TIFF.FILE_FLAGS if kind not in FORMATS
    }
    with tifffile.TiffFile(path, _multifile=False, **unused) as file:
        if ENTITIES.search(file.pages.first.description):
            raise ValueError("its XML defines entities, which OME-XML does not need")
        yield file.series[0]


class _Layout(NamedTuple):
    """Axes of a series, one letter each: Y and X are pixels, C and S channels, others images."""

    axes: str
    shape: tuple[int, ...]
    page_axes: str
    """Axes within a page; the others count pages."""

    @classmethod
    def of(cls, series: "tifffile.TiffPageSeries") -> "_Layout":
        """Return the layout of a series, checked."""
        layout = cls(series.axes, tuple(series.shape), series.keyframe.axes)
        once = all(layout.axes.count(axis) == 1 for axis in PIXELS)
        if not once or not layout.axes.endswith(layout.page_axes):
            raise ValueError(f"its axes {layout.axes} are not those of a stack of images")
        if not set(layout.page_axes) <= {*PIXELS, *CHANNELS}:
            raise ValueError(f"the axes {layout.page_axes} of its pages are not supported")
        values = math.prod(layout.size(axis) for axis in PIXELS + CHANNELS)
        if layout.size("Y") * layout.size("X") > MAX_PIXELS or values > MAX_VALUES:
            raise ValueError(
                f"more than {MAX_PIXELS // 10**6} million pixels, or {MAX_VALUES // 10**6} "
                "million values; make it smaller"
            )
        if layout.num_images > MAX_IMAGES:
            raise ValueError(f"more than {MAX_IMAGES:,} images")
        return layout

    def size(self, axis: str) -> int:
        """Return the length of an axis, 1 if there is none."""
        return self.shape[self.axes.index(axis)] if axis in self.axes else 1

    @property
    def num_images(self) -> int:
        """Number of images."""
        return math.prod(
            size
            for axis, size in zip(self.axes, self.shape, strict=True)
            if axis not in PIXELS + CHANNELS
        )

    def image(self, series: "tifffile.TiffPageSeries", index: int) -> np.ndarray:
        """Read an image `[H, W, C]`."""
        others = [axis for axis in self.axes if axis not in PIXELS + CHANNELS]
        place = dict(zip(others, self._indices(index, others), strict=True))
        if series.dataoffset is not None:  # uncompressed, one plane after the other
            file: Any = series.parent
            kind = np.dtype(series.dtype).newbyteorder(file.byteorder)
            path, start = file.filehandle.path, series.dataoffset
            values: np.ndarray = np.memmap(path, kind, "r", start, self.shape)
            values = values[tuple(place.get(axis, slice(None)) for axis in self.axes)]
            axes = [axis for axis in self.axes if axis not in others]
        else:
            outer = self.axes.removesuffix(self.page_axes)
            counted = [axis for axis in outer if axis in CHANNELS]
            pages = []
            for channel in np.ndindex(*map(self.size, counted)):
                at = place | dict(zip(counted, channel, strict=True))
                number = 0
                for axis in outer:
                    number = number * self.size(axis) + int(at[axis])
                page = series.pages[number]
                if page is None:
                    raise ValueError("its data is missing in this file")
                pages.append(page.asarray())
            axes = [*counted, *self.page_axes]
            values = np.stack(pages).reshape([self.size(axis) for axis in axes])
        order = [*PIXELS, *(axis for axis in axes if axis in CHANNELS)]
        image = np.transpose(values, [axes.index(axis) for axis in order])
        return np.ascontiguousarray(image).reshape(*image.shape[:2], -1)

    def _indices(self, index: int, axes: Sequence[str]) -> Sequence[int]:
        """Return the index of an image along each axis; the last one varies fastest."""
        sizes = [self.size(axis) for axis in axes]
        return [int(place) for place in np.unravel_index(index, sizes)] if axes else []


def _read_stack(
    path: Path, layout: _Layout, images: Sequence[int], options: Preprocessing
) -> list[Outcome]:
    with _opened(path) as series:
        if _Layout.of(series) != layout:
            raise ValueError("it changed while it was read")
        return [
            attempted(partial(_read_image, layout, series, index, options)) for index in images
        ]


def _read_image(
    layout: _Layout, series: "tifffile.TiffPageSeries", index: int, options: Preprocessing
) -> tuple[np.ndarray, Original]:
    return read_levels(layout.image(series, index), *options)
