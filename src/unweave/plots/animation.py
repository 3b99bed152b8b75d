"""Animations of all active latents side by side, each moving back and forth."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw

from unweave.io.paths import check_suffix
from unweave.io.writing import whole_file
from unweave.plots.colours import FAINT, GREY, INK, PALETTE, PAPER
from unweave.plots.drawn_codes import DrawnCodes, draw_codes
from unweave.plots.saving import ANIMATIONS
from unweave.plots.sheet import LEADING, enlarged, faded, letters, pictures_of
from unweave.plots.traversals import (
    Inactive,
    Prior,
    chosen_latents,
    label_of,
    start_at,
    traversal_values,
    vary_latent,
)

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["Animation", "animate", "back_and_forth"]

SIDE, GAP, MARGIN, TEXT = 128, 10, 10, 15
WIDEST = 5
COLOURS = 128
NEARLY = 6
OPTIONS: dict[str, dict[str, Any]] = {
    ".gif": {"format": "GIF", "optimize": False, "disposal": 1},
    ".webp": {"quality": 85, "method": 4},
    ".png": {},
}
"""PIL options for writing each file type."""


@dataclass(frozen=True, eq=False)
class Animation:
    """A looping animation.

    Args:
        frames: Images of equal size.
        milliseconds: Duration of each frame (default 80).
    """

    frames: Sequence[Image.Image]
    milliseconds: int = 80

    def save(self, path: str | Path) -> None:
        """Save as `.gif`, or as an animated `.webp` or `.png`, atomically."""
        path = Path(path)
        check_suffix(path, ANIMATIONS)
        with whole_file(path) as temporary:
            self._write(temporary, **OPTIONS[path.suffix.lower()])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, bytes]:
        """Return the animation as a GIF for display in notebooks."""
        file = io.BytesIO()
        self._write(file, format="GIF")
        return {"image/gif": file.getvalue()}

    def _write(self, file: Path | io.BytesIO, **options: Any) -> None:
        gif = options.get("format") == "GIF"
        first, *rest = _with_one_palette(self.frames) if gif else self.frames
        options |= {"save_all": True, "duration": self.milliseconds, "loop": 0}
        first.save(file, append_images=rest, **options)


def animate(
    model: "Model",
    data: "Dataset",
    index: int | None = None,
    steps: int = 16,
    reach: float = 2.5,
    *,
    image: Any = None,
    prior: Prior | None = None,
    seed: int = 0,
    quantiles: tuple[float, float] | None = None,
    inactive: Inactive = "hide",
    milliseconds: int = 80,
    names: Mapping[int, str] | None = None,
) -> Animation:
    """Animate the traversals of all active latents at once, one picture per latent.

    Pictures are sorted by KL divergence and labelled as in `traversals`. A slider below each
    shows the current value of the latent.

    Args:
        model: A trained model.
        data: Data set that the model was trained on.
        index: Index of the starting image (default: the middle of the grid, or the first image).
        steps: Number of values per latent; the animation has 2 · steps - 2 frames.
        reach: Largest absolute value of a latent, in standard deviations of the prior.
        image: Custom image to start from, `[H, W, C]`, bytes or floats in [0, 1].
        prior: Start from the `"mean"` of the prior or from a sample (`"draw"`).
        seed: Random seed for this sample and for images that are random given their factors.
        quantiles: Range of each latent as two quantiles of its codes, instead of `reach`.
        inactive: `"hide"` inactive latents or show them in `"grey"`.
        milliseconds: Duration of each frame.
        names: Names of latents, by number.

    Returns:
        An animation; save it with `.save("latents.gif")`, or as `.webp` or `.png`.
    """
    start = start_at(model, data, index, image, prior, seed)
    drawn = draw_codes(model, data, names=names)
    values = traversal_values(drawn, steps, reach, quantiles)
    latents = chosen_latents(drawn, inactive)
    codes = np.concatenate([vary_latent(start.code, latent, values[latent]) for latent in latents])
    decoded = pictures_of(model.decode(codes))
    there = _frames(decoded, drawn, latents, steps)
    return Animation([there[k] for k in back_and_forth(steps)], milliseconds)


def back_and_forth(steps: int) -> list[int]:
    """Return the frame indices of a seamless loop, forwards and then backwards.

    Example:
        >>> back_and_forth(4)
        [0, 1, 2, 3, 2, 1]
    """
    return [*range(steps), *range(steps - 2, 0, -1)]


def _frames(
    decoded: Sequence[Image.Image], drawn: DrawnCodes, latents: Sequence[int], steps: int
) -> list[Image.Image]:
    tiles = [enlarged(picture, SIDE) for picture in decoded]
    width, height = tiles[0].size
    line = round(LEADING * TEXT)
    across = min(WIDEST, len(latents))
    tall = height + 3 * line
    down = -(-len(latents) // across)
    area = 2 * MARGIN + across * (width + GAP) - GAP, 2 * MARGIN + down * (tall + GAP) - GAP
    frames = [Image.new("RGB", area, PAPER) for _ in range(steps)]
    for place, latent in enumerate(latents):
        x = MARGIN + place % across * (width + GAP)
        y = MARGIN + place // across * (tall + GAP)
        label, used = label_of(drawn, latent), bool(drawn.active[latent])
        for step, frame in enumerate(frames):
            tile = tiles[place * steps + step]
            frame.paste(tile if used else faded(tile), (x, y))
            draw = ImageDraw.Draw(frame)
            _slider(draw, (x, y + height + line // 2), width, step / (steps - 1), used)
            for row, text in enumerate(label if used else (label[0], "unused")):
                ink = INK if used and not row else FAINT
                draw.text((x, y + height + (row + 1) * line), text, fill=ink, font=letters(TEXT))
    return frames


def _slider(
    draw: ImageDraw.ImageDraw, place: tuple[int, int], width: int, share: float, used: bool
) -> None:
    x, y = place
    draw.line([(x, y), (x + width - 1, y)], fill=GREY, width=2)
    centre = x + 5 + share * (width - 11)
    draw.ellipse([centre - 5, y - 5, centre + 5, y + 5], fill=PALETTE[0] if used else GREY)


def _with_one_palette(frames: Sequence[Image.Image]) -> list[Image.Image]:
    """Quantise all frames to one palette of 128 colours, so that nothing flickers."""
    three = Image.new("RGB", (frames[0].width, 3 * frames[0].height))
    for k in range(3):
        # One end of the range, its middle and the other end.
        three.paste(frames[k * len(frames) // 4], (0, k * frames[0].height))
    palette = three.quantize(COLOURS, Image.Quantize.MEDIANCUT)
    found = np.array((palette.getpalette() or [])[: 3 * COLOURS]).reshape(-1, 3)
    # Snap colours close to the background to it, so that it stays pure white.
    paper = ImageColor.getrgb(PAPER)
    distance = np.abs(found - paper).max(1)
    found[distance <= max(NEARLY, distance.min())] = paper
    palette.putpalette(found.ravel().tolist())
    return [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
