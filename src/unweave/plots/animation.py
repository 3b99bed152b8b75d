"""Animations: all active latents side by side, moving back and forth."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw

from unweave.io.writing import whole_file
from unweave.plots.colours import FAINT, GREY, INK, PALETTE, PAPER
from unweave.plots.drawn_codes import Seen, look
from unweave.plots.saving import ANIMATIONS, known_ending
from unweave.plots.sheet import LEADING, enlarged, faded, letters, pictures_of
from unweave.plots.traversal_range import Prior, label_of, start_at, stops
from unweave.plots.traversals import Inactive, chosen_latents

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["Animation", "animate", "back_and_forth"]

SIDE, GAP, MARGIN, TEXT = 128, 10, 10, 15
WIDEST = 5
COLOURS = 128
NEARLY = 6


@dataclass(frozen=True, eq=False)
class Animation:
    """Pictures that follow each other, again and again.

    Args:
        frames: All of one size.
        milliseconds: How long each is shown.
    """

    frames: Sequence[Image.Image]
    milliseconds: int = 80

    def save(self, path: str | Path) -> None:
        """Write it as `.gif`, or as an animated `.webp` or `.png`; whole or not at all."""
        path = known_ending(path, ANIMATIONS, "an animation")
        options: dict[str, Any] = {"duration": self.milliseconds, "loop": 0, "save_all": True}
        frames = list(self.frames)
        ending = path.suffix.lower()
        if ending == ".gif":
            frames = _with_one_palette(frames)
            options |= {"optimize": False, "disposal": 1}
        elif ending == ".webp":
            options |= {"quality": 85, "method": 4}
        with whole_file(path) as temporary:
            frames[0].save(temporary, append_images=frames[1:], **options)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, bytes]:
        """Notebooks play it."""
        from io import BytesIO

        file = BytesIO()
        first, *rest = _with_one_palette(self.frames)
        first.save(
            file, "GIF", append_images=rest, save_all=True, duration=self.milliseconds, loop=0
        )
        return {"image/gif": file.getvalue()}


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
) -> Animation:
    """Let every active latent go to and fro at once, each in a picture of its own.

    Pictures are sorted by the KL divergence of their latents, labelled as in `traversals`, and
    have a slider that shows where the latent is.

    Args:
        model: A trained model.
        data: What it was trained on.
        index: The image to start from; see `traversals` for this and all that is not below.
        steps: Values that a latent takes on its way; there and back are 2 · steps - 2 frames.
        reach: How far a latent goes, in standard deviations of the prior.
        image: An image of your own to start from.
        prior: Start from the `"mean"` of the prior or from a `"draw"` of it.
        seed: Of that draw, and of images that are random given their factors.
        quantiles: Go from one quantile of the codes to another in place of `reach`.
        inactive: `"hide"` latents that say nothing, or show them in `"grey"`.
        milliseconds: How long a frame is shown.

    Returns:
        An animation, to be saved with `.save("latents.gif")`, or as `.webp` or `.png`.
    """
    start = start_at(model, data, index, image, prior, seed)
    seen = look(model, data)
    values = stops(seen, steps, reach, quantiles)
    latents = chosen_latents(seen, inactive)
    codes = np.tile(start.code, (len(latents), steps, 1))
    for place, latent in enumerate(latents):
        codes[place, :, latent] = values[latent]
    decoded = pictures_of(model.decode(codes.reshape(len(latents) * steps, -1)))
    there = _frames(decoded, seen, latents, steps)
    return Animation([there[k] for k in back_and_forth(steps)], milliseconds)


def back_and_forth(steps: int) -> list[int]:
    """There and back, such that the end goes over into the start.

    Example:
        >>> back_and_forth(4)
        [0, 1, 2, 3, 2, 1]
    """
    return [*range(steps), *range(steps - 2, 0, -1)]


def _frames(
    decoded: Sequence[Image.Image], seen: Seen, latents: Sequence[int], steps: int
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
        label, used = label_of(seen, latent), bool(seen.active[latent])
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
    """Frames in the 128 colours that suit all of them, so that nothing flickers."""
    three = Image.new("RGB", (frames[0].width, 3 * frames[0].height))
    for k in range(3):
        # Of a way there and back: one end, the middle, the other end.
        three.paste(frames[k * len(frames) // 4], (0, k * frames[0].height))
    palette = three.quantize(COLOURS, Image.Quantize.MEDIANCUT)
    found = np.array((palette.getpalette() or [])[: 3 * COLOURS]).reshape(-1, 3)
    # What is nearly paper becomes paper, so that the background is not nearly white.
    paper = ImageColor.getrgb(PAPER)
    distance = np.abs(found - paper).max(1)
    found[distance <= max(NEARLY, distance.min())] = paper
    palette.putpalette(found.ravel().tolist())
    return [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
