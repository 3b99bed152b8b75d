"""Reading, cropping and resizing of image files."""

import io
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

__all__ = [
    "FORMATS",
    "MAX_PIXELS",
    "SUFFIXES",
    "centre",
    "open_image",
    "open_picture",
    "read_square",
    "shrink",
    "square",
    "viewable",
]

MAX_PIXELS = 50_000_000
"""Largest number of pixels in an image, enough for most cameras."""
LARGE = 20_000_000
"""Number of pixels above which images are decoded one at a time, at up to 16 bytes a pixel."""
_one_at_a_time = threading.Lock()

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
# Limits Pillow to these formats whatever the file name says; reading EPS runs code, for example.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
GREY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")


def open_picture(file: Path | BinaryIO) -> Image.Image:
    """Open an image file without reading its pixels; raise ValueError if it has too many.

    Pillow warns about smaller images than this limit; callers ignore these warnings.
    """
    too_large = ValueError(f"more than {MAX_PIXELS // 10**6} million pixels; make it smaller")
    try:
        image = Image.open(file, formats=FORMATS)
    except Image.DecompressionBombError:  # above twice Pillow's limit for warnings
        raise too_large from None
    if image.width * image.height > MAX_PIXELS:
        image.close()
        raise too_large
    return image


def open_image(content: bytes | Path) -> Image.Image:
    """Open an image from bytes or a path; raise ValueError if it is invalid or far too large."""
    try:
        return open_picture(io.BytesIO(content) if isinstance(content, bytes) else content)
    except UnidentifiedImageError:
        raise ValueError("it is not an image") from None
    except Image.DecompressionBombWarning as error:  # if warnings are turned into errors
        raise ValueError(str(error)) from None


def centre(image: Image.Image, side: int) -> Image.Image:
    """Crop the central square of `side` pixels."""
    if min(image.size) < side:
        raise ValueError(f"{image.width} × {image.height} pixels are too few to crop {side}")
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return image.crop((left, top, left + side, top + side))


def shrink(image: Image.Image, side: int) -> np.ndarray:
    """Resize an image with Lanczos resampling (formerly ANTIALIAS), bytes `[side, side, C]`."""
    pixels = np.asarray(image.resize((side, side), Image.Resampling.LANCZOS))
    return pixels.reshape(side, side, -1)


def read_square(file: Path | BinaryIO, size: int, channels: int | None) -> np.ndarray:
    """Read the central square of an image file, rotated by EXIF, as bytes `[size, size, C]`."""
    with open_picture(file) as image:
        # Decode a JPEG at a half, quarter or eighth of its size if that is still large enough.
        image.draft(None, (2 * size, 2 * size))
        with _one_at_a_time if image.width * image.height > LARGE else nullcontext():
            ImageOps.exif_transpose(image, in_place=True)
            return square(image, size, channels)


def square(image: Image.Image, size: int, channels: int | None) -> np.ndarray:
    """Return the central square, resized, as bytes `[size, size, C]`."""
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
    # Equivalent to cropping after resizing, but never enlarges a long, thin image.
    small = image.resize((size, size), Image.Resampling.LANCZOS, box)
    return np.asarray(small).reshape(size, size, channels)


def viewable(images: np.ndarray) -> np.ndarray:
    """Return the channels of images `[…, C]` to display: the first three, or the first of two.

    >>> [viewable(np.zeros((8, 8, channels))).shape[-1] for channels in (1, 2, 3, 5)]
    [1, 1, 3, 3]
    """
    return images[..., :3] if images.shape[-1] >= 3 else images[..., :1]


def _eight_bits(levels: np.ndarray) -> np.ndarray:
    """Convert 16-bit integers or floats in [0, 1] of a grey image to bytes."""
    top = 1 if levels.dtype.kind == "f" else 65_535
    low, high = levels.min(), levels.max()
    if not (low >= 0 and high <= top):
        raise ValueError(f"grey values must be 0 … {top}, got {low} … {high}")
    return np.rint(levels / (top / 255)).astype(np.uint8)
