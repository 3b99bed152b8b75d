"""Sentences about how custom images were prepared: crops, resizing, bit depth and duplicates."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from unweave.data.pictures import NonSquare, Original
from unweave.text import counted, size_text

__all__ = [
    "Copies",
    "array_notes",
    "clipped_note",
    "copies_note",
    "depth_note",
    "file_notes",
    "find_copies",
    "skipped_note",
]

LONGEST_NAME = 60
DARK = 64
"""Upper 8 bits below which 16-bit colour images have at most 14 bits, and look dark."""


class Copies(NamedTuple):
    """Images with the same pixels as an earlier image."""

    num_copies: int
    """Number of these images."""
    copy: int
    """Index of the first of them."""
    of: int
    """Index of the image that it equals."""


def find_copies(images: Any) -> Copies | None:
    """Find exact duplicates among images `[N, H, W, C]`; None if there are none.

    Example:
        >>> find_copies(np.array([3, 5, 3, 3], dtype=np.uint8).reshape(4, 1, 1, 1))
        Copies(num_copies=2, copy=2, of=0)
    """
    rows = (np.ascontiguousarray(image).data for image in images)
    hashes = np.frombuffer(
        b"".join(blake2b(row, digest_size=8).digest() for row in rows), dtype=np.uint64
    )
    _, firsts, places = np.unique(hashes, return_index=True, return_inverse=True)
    if len(firsts) == len(images):
        return None
    originals = firsts[places]
    copy = int((originals != np.arange(len(images))).argmax())
    return Copies(len(images) - len(firsts), copy, int(originals[copy]))


def copies_note(copies: Copies, total: int, files: Sequence[str] = ()) -> str:
    """Return a sentence about duplicates, with the names or indices of two images."""
    pair = (copies.copy, copies.of)
    one, other = (_short(files[place]) if files else f"image {place}" for place in pair)
    return (
        f"Found {copies.num_copies:,} of {total:,} images with the same pixels as an earlier one "
        f"(e.g. {one}, equal to {other})"
    )


def skipped_note(skipped: Sequence[str], total: int, unit: str = "file") -> str:
    """Return a sentence about files, or images in them, that could not be read."""
    return f"Skipped {len(skipped):,} of {counted(total, unit)} that could not be read" + (
        _example([line.partition(": ")[0] for line in skipped])
    )


def depth_note(what: str, bits: int, largest: int, where: str) -> str:
    """Return a sentence about the bit depth of grey values of more than 8 bits."""
    return (
        f"Scaled {what} from {bits} bits (0 … {2**bits - 1:,}) to 8, with one scale for all; the "
        f"largest value is {largest:,}, in {where}"
    )


def clipped_note(clipped: Sequence[str], total: int, bits: int) -> str:
    """Return a sentence about images with larger values than the bit depth allows."""
    return (
        f"Clipped {len(clipped):,} of {counted(total, 'image')} with values above "
        f"{2**bits - 1:,} to white{_example(clipped)}"
    )


def array_notes(
    before: tuple[int, int], after: tuple[int, int], non_square: NonSquare
) -> list[str]:
    """Return sentences about arrays of images whose height and width changed."""
    if before == after:
        return []
    height, width = before
    side = (min if non_square == "crop" else max)(before)
    change = "Enlarged" if side < after[0] else "Resized"
    notes = [f"{change} the images from {size_text(before)} to {size_text(after)} pixels"]
    if height != width:
        notes.append(
            f"Cropped the images to their central square, which cuts off {_cut(width, height):.0%}"
            if non_square == "crop"
            else "Padded the images to a square with the colour of their border"
        )
    return notes


def file_notes(
    files: Sequence[str],
    originals: Sequence[Original],
    size: int,
    non_square: NonSquare,
    bits: int | None,
    unit: str = "file",
) -> list[str]:
    """Return sentences about how files were prepared, with counts and example names.

    Args:
        files: Names of the files, or of the images in them.
        originals: Description of each image.
        size: Side of the images.
        non_square: What was done to images that are not square.
        bits: Bit depth of grey values of more than 8 bits.
        unit: What the names are names of.
    """
    total = counted(len(files), unit)

    def listed(text: str, chosen: Sequence[bool], after: str = "") -> list[str]:
        names = [name for name, is_chosen in zip(files, chosen, strict=True) if is_chosen]
        return [f"{text.format(f'{len(names):,} of {total}')}{_example(names)}{after}"] * any(
            names
        )

    notes = []
    deep = [one.largest or 0 for one in originals]
    num_deep = sum(one.largest is not None for one in originals)
    if num_deep and bits:
        where = _short(files[int(np.argmax(deep))])
        what = f"the grey values of {counted(num_deep, unit)}"
        notes.append(depth_note(what, bits, max(deep), where))
    brightest = [one.largest_colour for one in originals if one.largest_colour is not None]
    if brightest:
        dark = (
            f"; the largest value is {max(brightest)} of 255, so they look dark: save them with "
            "8 bits"
        )
        notes += listed(
            "Used only the upper 8 bits of {} with 16 bits per colour",
            [one.largest_colour is not None for one in originals],
            dark if max(brightest) < DARK else "",
        )
    oblong = [one.width != one.height for one in originals]
    if non_square == "pad":
        notes += listed("Padded {} to a square with the colour of their border", oblong)
    elif any(oblong):
        cuts = [_cut(one.width, one.height) for one in originals]
        most = int(np.argmax(cuts))
        notes.append(
            f"Cropped {sum(oblong):,} of {total} to their central square, which cuts off up to "
            f"{cuts[most]:.0%} ({_short(files[most])})"
        )
    sides = [(min if non_square == "crop" else max)(one.width, one.height) for one in originals]
    if any(side != size for side in sides):
        notes.append(_resizing(originals, size, unit))
    notes += listed(
        f"Enlarged {{}} that are smaller than {size} pixels", [side < size for side in sides]
    )
    notes += listed("Read only the first frame or page of {}", [one.several for one in originals])
    notes += listed(
        "Left out the other pages of the file of {}, which differ in size or mode",
        [one.other_pages for one in originals],
    )
    notes += listed(
        "Placed {} with transparent pixels on white", [o.transparent for o in originals]
    )
    notes += listed("Converted {} from CMYK to RGB", [one.cmyk for one in originals])
    notes += listed("Rotated {} according to their EXIF data", [one.rotated for one in originals])
    return notes


def _resizing(originals: Sequence[Original], size: int, unit: str) -> str:
    sizes = sorted({(one.width, one.height) for one in originals}, key=lambda one: one[0] * one[1])
    smallest, largest = (f"{width:,} × {height:,}" for width, height in (sizes[0], sizes[-1]))
    found = smallest if len(sizes) == 1 else f"{smallest} to {largest}"
    before = "the files have" if unit == "file" else "they had"
    return f"Resized the images to {size_text((size, size))}; {before} {found} pixels"


def _cut(width: int, height: int) -> float:
    """Return the share of an image outside its central square."""
    return 1 - min(width, height) / max(width, height)


def _example(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f" ({'e.g. ' if len(names) > 1 else ''}{_short(names[0])})"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"…{name[-LONGEST_NAME:]}"
