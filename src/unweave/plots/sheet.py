"""Sheets: rows of pictures with labels that stay legible in one column of a paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unweave.data.pictures import viewable
from unweave.io.paths import check_suffix
from unweave.io.writing import whole_file
from unweave.plots.colours import FAINT, INK, PAPER
from unweave.plots.saving import PICTURES

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
    "two_lines",
]

MOST_COLUMNS, MOST_PICTURES = 1_000, 10_000
"""Limits on the size of a sheet, for image file formats and memory."""
SIDE = 64
"""Minimum side of a picture on a sheet, in pixels; smaller pictures are enlarged."""
SMALLEST = 7 / 72 / 3.25
"""Font size relative to the width of a sheet: 7 points at 3.25 inches."""
TALLEST = 0.45
"""Largest font size relative to the height of a picture, so that two lines fit next to it."""
LEADING = 1.15
FADE = 0.72
QUALITY: dict[str, dict[str, Any]] = {
    ".png": {"optimize": True},
    ".webp": {"lossless": True},
    ".jpg": {"quality": 95},
    ".jpeg": {"quality": 95},
}


class Sheet(Image.Image):
    """An image composed of pictures in rows, saved atomically.

    Args:
        image: The composed image.
        boxes: Left, top, right and bottom of each picture, row by row.
    """

    def __init__(
        self, image: Image.Image, boxes: Sequence[Sequence[tuple[int, int, int, int]]] = ()
    ) -> None:
        super().__init__()
        self.__dict__.update(image.__dict__)
        self.boxes = boxes

    def part(self, row: int, column: int) -> np.ndarray:
        """Return one of its pictures as displayed on the sheet, bytes `[H, W, 3]`."""
        return np.asarray(self.crop(self.boxes[row][column]))

    def save(self, fp: Any, format: str | None = None, **params: Any) -> None:  # noqa: A002 - PIL's
        """Save as `.png`, `.jpg` or `.webp`, atomically; open files are passed on to PIL."""
        if not isinstance(fp, str | Path):
            super().save(fp, format, **params)
            return
        path = Path(fp)
        check_suffix(path, PICTURES)
        with whole_file(path) as temporary:
            super().save(temporary, format, **(QUALITY[path.suffix.lower()] | params))


@dataclass(frozen=True, eq=False)
class Row:
    """A row of a sheet."""

    pictures: Sequence[Image.Image]  # pictures from left to right
    name: str = ""  # text on the left
    note: str = ""  # secondary text below the name
    end: str = ""  # text on the right
    faint: bool = False  # whether to fade the row, for example for an inactive latent

    @property
    def shown(self) -> list[Image.Image]:
        """Pictures as displayed on a sheet: enlarged, and faded if the row is faint."""
        large = map(enlarged, self.pictures)
        return [faded(picture) if self.faint else picture for picture in large]

    @property
    def inks(self) -> tuple[str, str]:
        """Colours of the name and the note."""
        return FAINT if self.faint else INK, FAINT


def pictures_of(images: np.ndarray) -> list[Image.Image]:
    """Convert images `[n, H, W, C]`, bytes or floats in [0, 1], to PIL images."""
    images = viewable(images)
    if images.dtype != np.uint8:
        images = np.rint(images * 255).astype(np.uint8)
    return [Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image) for image in images]


def enlarged(picture: Image.Image, side: int = SIDE) -> Image.Image:
    """Convert a picture to RGB and repeat its pixels until each side has at least `side`."""
    times = -(-side // min(picture.size))
    size = picture.width * times, picture.height * times
    return picture.convert("RGB").resize(size, Image.Resampling.NEAREST)


def faded(picture: Image.Image) -> Image.Image:
    """Blend a picture with the background."""
    return Image.blend(picture, Image.new("RGB", picture.size, PAPER), FADE)


@cache
def letters(size: int) -> ImageFont.FreeTypeFont:
    """Return the DejaVu Sans font of matplotlib, which has arrows and Greek letters."""
    found = find_spec("matplotlib")
    assert found is not None
    assert found.origin is not None
    file = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(file), size)


def lay_out(rows: Sequence[Row], caption: str = "") -> Sheet:
    """Lay out rows of pictures of equal size on a sheet, with a caption below them."""
    shown = [row.shown for row in rows]
    width, height = shown[0][0].size
    gap, margin = max(2, height // 16), height // 8
    grid = max(map(len, shown)) * (width + gap) - gap
    size, left, right = _letter_size(rows, grid + 2 * margin, height)
    font, line = letters(size), round(LEADING * size)
    caption_lines = _wrap(caption, grid + right, font)
    below = len(caption_lines) * line + margin // 2 if caption_lines else 0
    total = 2 * margin + left + grid + right
    tall = 2 * margin + len(rows) * (height + gap) - gap + below
    sheet = Image.new("RGB", (total, tall), PAPER)
    draw = ImageDraw.Draw(sheet)
    edge = total - margin
    boxes = []
    for r, (row, pictures) in enumerate(zip(rows, shown, strict=True)):
        top = margin + r * (height + gap)
        middle = top + height // 2
        two_lines(draw, (margin, middle), (row.name, row.note), size, row.inks)
        draw.text((edge, middle), row.end, fill=FAINT, font=font, anchor="rm")
        places = [margin + left + c * (width + gap) for c in range(len(pictures))]
        for x, picture in zip(places, pictures, strict=True):
            sheet.paste(picture, (x, top))
        boxes.append([(x, top, x + width, top + height) for x in places])
    for up, text in enumerate(reversed(caption_lines)):
        place = margin + left, tall - margin - up * line
        draw.text(place, text, fill=FAINT, font=font, anchor="ls")
    return Sheet(sheet, boxes)


def _wrap(text: str, width: float, font: ImageFont.FreeTypeFont) -> list[str]:
    """Wrap a text into lines of at most `width` pixels, without breaking words."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _letter_size(rows: Sequence[Row], width: int, height: int) -> tuple[int, int, int]:
    """Return the font size and the widths of the labels on the left and right, in pixels.

    A larger font makes the sheet wider, which in turn needs a larger font, so this iterates.
    """
    size, left, right = 12, 0, 0
    for _ in range(6):
        font = letters(size)
        left = round(max(max(font.getlength(row.name), font.getlength(row.note)) for row in rows))
        right = round(max(font.getlength(row.end) for row in rows))
        left, right = left + size // 2 * (left > 0), right + size // 2 * (right > 0)
        size = max(12, min(int(TALLEST * height), round(SMALLEST * (width + left + right))))
    return size, left, right


def two_lines(
    draw: ImageDraw.ImageDraw,
    place: tuple[int, int],
    lines: tuple[str, str],
    size: int,
    inks: tuple[str, str],
) -> None:
    """Write one or two lines of text to the right of a place, vertically centred on it."""
    x, middle = place
    half = round(LEADING * size / 2) if lines[1] else 0
    for line, ink, y in zip(lines, inks, (middle - half, middle + half), strict=True):
        draw.text((x, y), line, fill=ink, font=letters(size), anchor="lm")
