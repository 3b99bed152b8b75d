"""Sheets: pictures in rows with labels that can be read in a column of a paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unweave.io.writing import whole_file
from unweave.plots.colours import FAINT, INK, PAPER
from unweave.plots.saving import PICTURES, known_ending

__all__ = [
    "MOST_COLUMNS",
    "MOST_PICTURES",
    "Row",
    "Sheet",
    "enlarged",
    "faded",
    "lay_out",
    "letters",
    "pictures_of",
]

MOST_COLUMNS, MOST_PICTURES = 1_000, 10_000
"""Of a sheet, which files of pictures and memory still hold."""
SIDE = 64
"""Pixels that a picture has at least on a sheet; smaller ones are enlarged."""
SMALLEST = 7 / 72 / 3.25
"""The size of letters in widths of a sheet: 7 points where it is 3.25 inches wide."""
TALLEST = 0.45
"""The size of letters in heights of a picture, at most: two lines stand beside it."""
LEADING = 1.15
FADE = 0.72
QUALITY: dict[str, dict[str, Any]] = {
    ".png": {"optimize": True},
    ".webp": {"lossless": True},
    ".jpg": {"quality": 95},
    ".jpeg": {"quality": 95},
}


class Sheet(Image.Image):
    """A picture that knows where its parts are, and is saved whole or not at all.

    Args:
        image: What it shows.
        boxes: Left, top, right and bottom of the pictures on it, row by row.
    """

    def __init__(
        self, image: Image.Image, boxes: Sequence[Sequence[tuple[int, int, int, int]]] = ()
    ) -> None:
        super().__init__()
        self.__dict__.update(image.__dict__)
        self.boxes = boxes

    def part(self, row: int, column: int) -> np.ndarray:
        """One of its pictures, bytes `[H, W, 3]`, enlarged as it is on the sheet."""
        return np.asarray(self.crop(self.boxes[row][column]))

    def save(self, fp: Any, format: str | None = None, **params: Any) -> None:  # noqa: A002 - PIL's
        """Write it as `.png`, `.jpg` or `.webp`; whole or not at all.

        Args:
            fp: A path, or an open file.
            format: As PIL calls it, where that is not by the file's ending.
            params: PIL's options.
        """
        if not isinstance(fp, str | Path):
            super().save(fp, format, **params)
            return
        path = known_ending(fp, PICTURES, "a picture")
        with whole_file(path) as temporary:
            super().save(temporary, format, **(QUALITY[path.suffix.lower()] | params))


@dataclass(frozen=True, eq=False)
class Row:
    """A row of a sheet.

    Args:
        pictures: From left to right.
        name: On the left.
        note: Below the name, fainter.
        end: On the right.
        faint: Whether it is there for completeness only.
    """

    pictures: Sequence[Image.Image]
    name: str = ""
    note: str = ""
    end: str = ""
    faint: bool = False


def pictures_of(images: np.ndarray) -> list[Image.Image]:
    """Images `[n, H, W, C]`, bytes or floats in [0, 1], as pictures."""
    if images.dtype != np.uint8:
        images = np.rint(images * 255).astype(np.uint8)
    return [Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image) for image in images]


def enlarged(picture: Image.Image, side: int = SIDE) -> Image.Image:
    """A picture in colour, its pixels repeated until its shorter side has at least `side`."""
    times = -(-side // min(picture.size))
    size = picture.width * times, picture.height * times
    return picture.convert("RGB").resize(size, Image.Resampling.NEAREST)


def faded(picture: Image.Image) -> Image.Image:
    """A picture that is nearly paper."""
    return Image.blend(picture, Image.new("RGB", picture.size, PAPER), FADE)


@cache
def letters(size: int) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which has arrows and Greek letters, as it comes with matplotlib."""
    found = find_spec("matplotlib")
    assert found is not None
    assert found.origin is not None
    file = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(file), size)


def lay_out(rows: Sequence[Row], caption: str = "") -> Sheet:
    """Rows of pictures, all of one size, on a sheet.

    Args:
        rows: From top to bottom.
        caption: Below all, in as many lines as it needs.
    """
    shown = [
        [faded(picture) if row.faint else picture for picture in map(enlarged, row.pictures)]
        for row in rows
    ]
    width, height = shown[0][0].size
    gap, margin = max(2, height // 16), height // 8
    grid = max(map(len, shown)) * (width + gap) - gap
    size, left, right = _letter_size(rows, grid + 2 * margin, height)
    font, line = letters(size), round(LEADING * size)
    said = _lines(caption, grid + right, font)
    below = len(said) * line + margin // 2 if said else 0
    total = 2 * margin + left + grid + right
    tall = 2 * margin + len(rows) * (height + gap) - gap + below
    sheet = Image.new("RGB", (total, tall), PAPER)
    draw = ImageDraw.Draw(sheet)
    edge = total - margin
    boxes = []
    for r, (row, pictures) in enumerate(zip(rows, shown, strict=True)):
        top = margin + r * (height + gap)
        middle = top + height // 2
        _label(draw, (margin, middle), row, size)
        draw.text((edge, middle), row.end, fill=FAINT, font=font, anchor="rm")
        places = [margin + left + c * (width + gap) for c in range(len(pictures))]
        for x, picture in zip(places, pictures, strict=True):
            sheet.paste(picture, (x, top))
        boxes.append([(x, top, x + width, top + height) for x in places])
    for up, words in enumerate(reversed(said)):
        place = margin + left, tall - margin - up * line
        draw.text(place, words, fill=FAINT, font=font, anchor="ls")
    return Sheet(sheet, boxes)


def _lines(text: str, width: float, font: ImageFont.FreeTypeFont) -> list[str]:
    """A text in lines of at most this width, where its words are not wider."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _letter_size(rows: Sequence[Row], width: int, height: int) -> tuple[int, int, int]:
    """The size of letters, and the widths of what is on the left and right, in pixels.

    Larger letters make a wider sheet, which needs larger letters: a few rounds settle it.
    """
    size, left, right = 12, 0, 0
    for _ in range(6):
        font = letters(size)
        left = round(max(max(font.getlength(row.name), font.getlength(row.note)) for row in rows))
        right = round(max(font.getlength(row.end) for row in rows))
        left, right = left + size // 2 * (left > 0), right + size // 2 * (right > 0)
        size = max(12, min(int(TALLEST * height), round(SMALLEST * (width + left + right))))
    return size, left, right


def _label(draw: ImageDraw.ImageDraw, place: tuple[int, int], row: Row, size: int) -> None:
    x, middle = place
    ink, font = (FAINT if row.faint else INK), letters(size)
    if not row.note:
        draw.text((x, middle), row.name, fill=ink, font=font, anchor="lm")
        return
    half = round(LEADING * size / 2)
    draw.text((x, middle - half), row.name, fill=ink, font=font, anchor="lm")
    draw.text((x, middle + half), row.note, fill=FAINT, font=font, anchor="lm")
