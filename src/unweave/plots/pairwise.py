"""Traversals of two latents at once, on a grid."""

from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from unweave.errors import UnweaveError
from unweave.io.arguments import check_count
from unweave.plots.colours import FAINT, INK, PAPER
from unweave.plots.drawn_codes import DrawnCodes, draw_codes
from unweave.plots.sheet import (
    LEADING,
    MOST_PICTURES,
    SMALLEST,
    Sheet,
    enlarged,
    letters,
    pictures_of,
)
from unweave.plots.traversals import Prior, label_of, start_at, traversal_values

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["pairwise"]

GAP = 2


def pairwise(
    model: "Model",
    data: "Dataset",
    latents: tuple[int, int] | None = None,
    index: int | None = None,
    columns: int = 9,
    reach: float = 2.5,
    *,
    image: Any = None,
    prior: Prior | None = None,
    seed: int = 0,
    quantiles: tuple[float, float] | None = None,
) -> Sheet:
    """Plot decoded images while two latents vary, the first downwards and the second rightwards.

    Args:
        model: A trained model.
        data: Data set that the model was trained on.
        latents: The two latents to vary (default: the two with the largest KL divergence).
        index: Index of the starting image (default: the middle of the grid, or the first image).
        columns: Number of values per latent.
        reach: Largest absolute value of a latent, in standard deviations of the prior.
        image: Custom image to start from, `[H, W, C]`, bytes or floats in [0, 1].
        prior: Start from the `"mean"` of the prior or from a sample (`"draw"`).
        seed: Random seed for this sample and for images that are random given their factors.
        quantiles: Range of each latent as two quantiles of its codes, instead of `reach`.

    Returns:
        An image; save it with `.save("pair.png")`.
    """
    check_count("columns", columns, 2, round(MOST_PICTURES**0.5))
    start = start_at(model, data, index, image, prior, seed)
    drawn = draw_codes(model, data)
    down, right = _two(drawn, latents)
    values = traversal_values(drawn, columns, reach, quantiles)
    codes = np.tile(start.code, (columns, columns, 1))
    codes[..., down] = values[down][:, None]
    codes[..., right] = values[right][None]
    decoded = pictures_of(model.decode(codes.reshape(columns**2, -1)))
    pictures = [enlarged(picture) for picture in decoded]
    names = [" ".join(label_of(drawn, latent)).strip() for latent in (down, right)]
    return _grid(pictures, names, values[[down, right]])


def _two(drawn: DrawnCodes, latents: tuple[int, int] | None) -> tuple[int, int]:
    count = drawn.means.shape[1]
    if count < 2:
        raise UnweaveError.must("model", "have at least 2 latents", count)
    if latents is None:
        return int(drawn.order[0]), int(drawn.order[1])
    chosen = [int(latent) for latent in latents]
    if len(set(chosen)) != 2 or not all(0 <= latent < count for latent in chosen):
        raise UnweaveError.must(
            "latents", f"be two different numbers from 0 to {count - 1}", chosen
        )
    return chosen[0], chosen[1]


def _grid(pictures: list[Image.Image], names: list[str], values: np.ndarray) -> Sheet:
    """Lay out pictures on a square grid, with names and values along the left and top."""
    columns = values.shape[1]
    width, height = pictures[0].size
    margin = height // 8
    grid = columns * (width + GAP) - GAP, columns * (height + GAP) - GAP
    size = max(12, round(SMALLEST * 1.15 * (grid[0] + 2 * margin)))
    font, line = letters(size), round(LEADING * size)
    texts = [[f"{value:.1f}".replace("-", "−") for value in row] for row in values]
    beside = round(max(font.getlength(text) for text in texts[0])) + size + line
    above = 2 * line + size // 4
    area = 2 * margin + beside + grid[0], 2 * margin + above + grid[1]
    sheet = Image.new("RGB", area, PAPER)
    draw = ImageDraw.Draw(sheet)
    left, top = margin + beside, margin + above
    draw.text((left + grid[0] // 2, margin), names[1], fill=INK, font=font, anchor="ma")
    sheet.paste(_upright(names[0], size, grid[1]), (margin, top))
    # Skip every second value if they do not fit side by side.
    every = 1 + (max(font.getlength(text) for text in texts[1]) > width)
    boxes = []
    for r in range(columns):
        y = top + r * (height + GAP)
        if r % every == 0:
            place = left - size // 2, y + height // 2
            draw.text(place, texts[0][r], fill=FAINT, font=font, anchor="rm")
            place = left + r * (width + GAP) + width // 2, top - size // 4
            draw.text(place, texts[1][r], fill=FAINT, font=font, anchor="ms")
        corners = [(left + c * (width + GAP), y) for c in range(columns)]
        for c, corner in enumerate(corners):
            sheet.paste(pictures[r * columns + c], corner)
        boxes.append([(x, y, x + width, y + height) for x, _ in corners])
    return Sheet(sheet, boxes)


def _upright(text: str, size: int, length: int) -> Image.Image:
    """Render a line of text that reads from bottom to top, centred in `length` pixels."""
    strip = Image.new("RGB", (length, round(LEADING * size)), PAPER)
    ImageDraw.Draw(strip).text((length // 2, 0), text, fill=INK, font=letters(size), anchor="ma")
    return strip.transpose(Image.Transpose.ROTATE_90)
