"""Reading, cropping and resizing of image files."""

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

__all__ = [
    "BIT_DEPTHS",
    "FORMATS",
    "FULL_BITS",
    "MAX_PIXELS",
    "SUFFIXES",
    "NonSquare",
    "Original",
    "bit_depth",
    "centre",
    "open_image",
    "open_picture",
    "read_levels",
    "read_pages",
    "read_picture",
    "read_square",
    "scaled_bytes",
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
NonSquare = Literal["crop", "pad"]
"""What to do with images that are not square: crop the centre, or pad to a square."""
BIT_DEPTHS = (8, 10, 12, 14, 16)
"""Bit depths of cameras whose pixels are stored in 16 bits."""
FULL_BITS = 16
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


class Original(NamedTuple):
    """An image file before preprocessing."""

    width: int
    """Width in pixels, after rotation."""
    height: int
    """Height in pixels, after rotation."""
    rotated: bool = False
    """Whether it was rotated or mirrored according to its EXIF data."""
    transparent: bool = False
    """Whether any pixel is transparent."""
    several: bool = False
    """Whether the file has several frames or pages."""
    cmyk: bool = False
    """Whether its colours are those of a printer."""
    largest: int | None = None
    """Largest value of a grey image with more than 8 bits, None for other images."""
    clipped: bool = False
    """Whether it has grey values above the scale."""
    largest_colour: int | None = None
    """Largest value, of 255, of an image with 16 bits per colour, None for other images."""
    other_pages: bool = False
    """Whether its file has pages of another size or mode, which were not read."""


def read_square(
    file: Path | BinaryIO,
    size: int,
    channels: int | None,
    bits: int | None = None,
    non_square: NonSquare = "crop",
) -> np.ndarray:
    """Read an image file as `read_picture`, and return only the pixels."""
    return read_picture(file, size, channels, bits, non_square)[0]


def read_picture(
    file: Path | BinaryIO,
    size: int,
    channels: int | None,
    bits: int | None = None,
    non_square: NonSquare = "crop",
) -> tuple[np.ndarray, Original]:
    """Read an image file, rotated by EXIF, as bytes `[size, size, C]`.

    Args:
        file: Path or open file.
        size: Side of the result, in pixels.
        channels: 1 for grey, 3 for colour, None to keep those of the file.
        bits: Bit depth of grey images with more than 8 bits (default: 16); larger values become
            white.
        non_square: `"crop"` returns the central square of the image, `"pad"` all of it, with
            margins in the median colour of its border.

    Returns:
        The pixels, and a description of the file.
    """
    with open_picture(file) as image:
        pixels, original = _read_open(image, size, channels, bits, non_square)
        # At the end, because it moves to the second frame.
        return pixels, original._replace(several=_has_several_frames(image))


def read_pages(
    file: Path,
    pages: Sequence[int],
    size: int,
    channels: int | None,
    bits: int | None = None,
    non_square: NonSquare = "crop",
) -> Iterator[Callable[[], tuple[np.ndarray, Original]]]:
    """Yield a function for each of these pages of a file, which reads it as `read_picture`."""
    with open_picture(file) as image:
        for page in pages:

            def read(page: int = page) -> tuple[np.ndarray, Original]:
                image.seek(page)
                return _read_open(image, size, channels, bits, non_square, alone=False)

            yield read


def read_levels(
    levels: np.ndarray,
    size: int,
    channels: int | None,
    bits: int | None = None,
    non_square: NonSquare = "crop",
) -> tuple[np.ndarray, Original]:
    """Convert an image `[H, W, C]` of any numeric type, as `read_picture` does with files."""
    height, width, depth = levels.shape
    if channels not in (None, depth) and depth not in (1, 3):
        raise ValueError(f"its {depth} channels cannot be converted to {channels}; omit channels")
    original = Original(width, height)
    if levels.dtype.kind == "b":
        levels = levels * np.uint8(255)
    if levels.dtype != np.uint8:
        original = _with_levels(original, levels, bits)
        levels = _eight_bits(levels, bits or FULL_BITS)
    if depth == 3:
        return square(Image.fromarray(levels), size, channels, non_square), original
    planes = [Image.fromarray(levels[..., channel]) for channel in range(depth)]
    only = channels or 1 if depth == 1 else 1
    return np.concatenate([square(one, size, only, non_square) for one in planes], -1), original


def _read_open(
    image: Image.Image,
    size: int,
    channels: int | None,
    bits: int | None,
    non_square: NonSquare,
    alone: bool = True,
) -> tuple[np.ndarray, Original]:
    """Read an open image; it may change if it is alone in its file."""
    width, height = image.size
    # Decode a JPEG at a half, quarter or eighth of its size if that is still large enough.
    image.draft(None, (2 * size, 2 * size))
    deep_colour = image.mode[0] not in "IF" and _has_16_bits(image)
    with _one_at_a_time if image.width * image.height > LARGE else nullcontext():
        image.load()
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
        upright: Image.Image = image
        if not alone:
            upright = image.copy()
            upright.getexif()[ExifTags.Base.Orientation] = orientation
        ImageOps.exif_transpose(upright, in_place=True)
        if orientation in (5, 6, 7, 8):
            width, height = height, width
        original = Original(
            width,
            height,
            rotated=orientation in range(2, 9),
            transparent=_is_transparent(upright),
            cmyk=upright.mode == "CMYK",
            largest_colour=_largest(upright) if deep_colour else None,
        )
        if upright.mode[0] in "IF":
            levels = np.asarray(upright)
            small = Image.fromarray(_eight_bits(levels, bits or FULL_BITS))
            return square(small, size, channels, non_square), _with_levels(original, levels, bits)
        return square(upright, size, channels, non_square), original


def _with_levels(original: Original, levels: np.ndarray, bits: int | None) -> Original:
    """Add the largest value of an image of integers with more than 8 bits."""
    if levels.dtype.kind == "f":
        return original
    largest = int(levels.max())
    return original._replace(largest=largest, clipped=largest > 2 ** (bits or FULL_BITS) - 1)


def square(
    image: Image.Image, size: int, channels: int | None, non_square: NonSquare = "crop"
) -> np.ndarray:
    """Return a square image, cropped or padded and resized, as bytes `[size, size, C]`."""
    channels = channels or (1 if image.mode in GREY_MODES else 3)
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        clear = image if image.mode == "RGBA" else image.convert("RGBA")
        image = Image.alpha_composite(white, clear)
        del white, clear
    mode = "L" if channels == 1 else "RGB"
    image = image if image.mode == mode else image.convert(mode)
    if non_square == "pad" and image.width != image.height:
        return _padded(image, size, channels)
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    box = (left, top, left + side, top + side)
    # Equivalent to cropping after resizing, but never enlarges a long, thin image.
    small = image.resize((size, size), Image.Resampling.LANCZOS, box)
    return np.asarray(small).reshape(size, size, channels)


def _padded(image: Image.Image, size: int, channels: int) -> np.ndarray:
    """Return a whole image, resized, on a square in the median colour of its border."""
    width, height = (max(1, round(side * size / max(image.size))) for side in image.size)
    resized = image.resize((width, height), Image.Resampling.LANCZOS)
    small = np.asarray(resized).reshape(height, width, channels)
    border = np.concatenate([small[0], small[-1], small[:, 0], small[:, -1]])
    out = np.empty((size, size, channels), dtype=np.uint8)
    out[:] = np.median(border, axis=0).astype(np.uint8)
    top, left = (size - height) // 2, (size - width) // 2
    out[top : top + height, left : left + width] = small
    return out


def viewable(images: np.ndarray) -> np.ndarray:
    """Return the channels of images `[…, C]` to display: the first three, or the first of two.

    >>> [viewable(np.zeros((8, 8, channels))).shape[-1] for channels in (1, 2, 3, 5)]
    [1, 1, 3, 3]
    """
    return images[..., :3] if images.shape[-1] >= 3 else images[..., :1]


def bit_depth(largest: int) -> int:
    """Return the smallest bit depth in `BIT_DEPTHS` that holds a value up to 65535.

    >>> [bit_depth(largest) for largest in (255, 256, 4_000, 4_096, 65_535)]
    [8, 10, 12, 14, 16]
    """
    return next(bits for bits in BIT_DEPTHS if largest < 2**bits)


def scaled_bytes(levels: np.ndarray, top: float) -> np.ndarray:
    """Convert numbers 0 … `top` to bytes 0 … 255; larger ones become 255."""
    return np.rint(np.minimum(levels, top) / (top / 255)).astype(np.uint8)


def _eight_bits(levels: np.ndarray, bits: int) -> np.ndarray:
    """Convert integers up to 16 bits, or floats in [0, 1], of a grey image to bytes."""
    top = 1 if levels.dtype.kind == "f" else 65_535
    low, high = levels.min(), levels.max()
    if not (low >= 0 and high <= top):
        raise ValueError(f"grey values must be 0 … {top}, got {low} … {high}")
    return scaled_bytes(levels, 1 if levels.dtype.kind == "f" else 2**bits - 1)


def _has_16_bits(image: Image.Image) -> bool:
    """Whether Pillow reads only the upper 8 of 16 bits, as it does except for grey images."""
    return isinstance(image, ImageFile.ImageFile) and any(
        ";16" in str(tile.args) for tile in image.tile
    )


def _largest(image: Image.Image) -> int:
    """Return the largest value of all colours of an image, without its alpha channel."""
    extrema: Any = image.getextrema()
    bands = image.getbands()
    ranges = [extrema] if len(bands) == 1 else extrema
    return int(max(high for band, (_, high) in zip(bands, ranges, strict=True) if band != "A"))


def _is_transparent(image: Image.Image) -> bool:
    """Whether any pixel of an image may be transparent."""
    if image.mode in ("RGBA", "LA", "PA"):
        extrema: Any = image.getextrema()
        return bool(extrema[-1][0] < 255)
    clear = image.info.get("transparency")
    if image.mode == "P" and clear is not None:
        used: list[Any] = [index for _, index in image.getcolors(256) or ()]
        if isinstance(clear, bytes):
            return any(clear[index] < 255 for index in used if index < len(clear))
        return clear in used
    return image.has_transparency_data


def _has_several_frames(image: Image.Image) -> bool:
    try:
        return bool(getattr(image, "is_animated", False))
    except Exception:  # Pillow raises nearly anything for broken files
        return False
