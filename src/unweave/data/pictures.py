"""Picture files: which can be read, and the centre square of one, in bytes."""

import threading
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps

__all__ = ["FORMATS", "MOST_PIXELS", "SUFFIXES", "open_picture", "read_square", "square"]

MOST_PIXELS = 50_000_000
"""Of an image: as many as most cameras take."""
LARGE = 20_000_000
"""Pixels beyond which images are decoded one at a time, each in up to 16 bytes a pixel."""
_one_at_a_time = threading.Lock()

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
# Named, so that a file merely called .png cannot reach other readers of Pillow's (EPS runs code).
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
GREY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")


def open_picture(file: Path | BinaryIO) -> Image.Image:
    """An image file, whose pixels are not read yet; too many of them are a ValueError.

    Pillow warns of fewer, which callers ignore.
    """
    too_large = ValueError(f"more than {MOST_PIXELS // 10**6} million pixels; make it smaller")
    try:
        image = Image.open(file, formats=FORMATS)
    except Image.DecompressionBombError:  # beyond twice the pixels that Pillow warns of
        raise too_large from None
    if image.width * image.height > MOST_PIXELS:
        image.close()
        raise too_large
    return image


def read_square(file: Path | BinaryIO, size: int, channels: int | None) -> np.ndarray:
    """The centre square of an image file, upright and resized, in bytes `[size, size, C]`."""
    with open_picture(file) as image:
        # A JPEG can be decoded at a half, quarter or eighth: all that the resizing needs.
        image.draft(None, (2 * size, 2 * size))
        with _one_at_a_time if image.width * image.height > LARGE else nullcontext():
            ImageOps.exif_transpose(image, in_place=True)
            return square(image, size, channels)


def square(image: Image.Image, size: int, channels: int | None) -> np.ndarray:
    """The centre square, resized, in bytes `[size, size, C]`."""
    channels = channels or (1 if image.mode in GREY_MODES else 3)
    if image.mode[0] in "IF":
        image = Image.fromarray(_eight_bits(np.asarray(image)))
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        clear = image if image.mode == "RGBA" else image.convert("RGBA")
        image = Image.alpha_composite(white, clear)
        del white, clear
    mode = "L" if channels == 1 else "RGB"
    image = image if image.mode == mode else image.convert(mode)
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    box = (left, top, left + side, top + side)
    # The box comes to the same as cropping last, but a long thin image never grows.
    small = image.resize((size, size), Image.Resampling.LANCZOS, box)
    return np.asarray(small).reshape(size, size, channels)


def _eight_bits(levels: np.ndarray) -> np.ndarray:
    """Bytes from the whole numbers of 16 bits or the floats in [0, 1] of an unusual grey image."""
    top = 1 if levels.dtype.kind == "f" else 65_535
    low, high = levels.min(), levels.max()
    if not (low >= 0 and high <= top):
        raise ValueError(f"grey values from {low} to {high}, expected 0 to {top}")
    return np.rint(levels / (top / 255)).astype(np.uint8)
