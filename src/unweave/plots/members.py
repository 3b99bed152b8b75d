"""Traversals of all members of an ensemble side by side, the same latent in one row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from unweave.errors import UnweaveError
from unweave.io.arrays import on_host
from unweave.models.drawn_images import NUM_DRAWN, drawn_rows
from unweave.models.members import Aligned, aligned_posteriors
from unweave.plots.colours import FAINT, INK, PAPER
from unweave.plots.drawn_codes import Seen, check_data
from unweave.plots.sheet import LEADING, TALLEST, Sheet, enlarged, faded, letters, pictures_of
from unweave.plots.traversal_range import Prior, label_of, range_in_words, start_at, stops
from unweave.plots.traversals import Inactive, check_inactive

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["members"]

PICTURES, FEWEST = 15, 3
"""In a row of all members, about; and of one member, at least."""
VERDICTS = {"agree": "", "disagree": "members disagree", "unused": "unused"}


@dataclass(frozen=True, eq=False)
class Strip:
    """What one member does in one row.

    Args:
        pictures: From left to right.
        name: On the left.
        note: Below the name, fainter.
        faint: Whether the latent says nothing in this member.
    """

    pictures: Sequence[Image.Image]
    name: str
    note: str
    faint: bool = False


@dataclass(frozen=True, eq=False)
class Line:
    """One row: a strip per member, and what is said of them together, in two lines."""

    strips: Sequence[Strip]
    end: tuple[str, str]
    striking: bool = False


def members(
    model: "Model",
    data: "Dataset",
    index: int | None = None,
    columns: int | None = None,
    reach: float = 2.5,
    *,
    image: Any = None,
    prior: Prior | None = None,
    seed: int = 0,
    quantiles: tuple[float, float] | None = None,
    inactive: Inactive = "grey",
) -> Sheet:
    """Draw what each latent does in every member of an ensemble, side by side.

    A row is a latent of the first member, with the latent of each other member that its map says
    is the same. Where the map turns its sign ("turned") it goes the other way, so that all members
    should show the same. At the end of the row is the agreement, the mean correlation of the
    latent with those of the others; below 0.7 members disagree. Rows are sorted by the ratio of
    the variance of means to the noise, since the KL divergence of a latent that an ensemble does
    not use is not 0.

    Args:
        model: An ensemble of at least two members.
        data: What it was trained on.
        index: The image to start from; by default one in the middle of the grid, or the first.
        columns: Images per member; by default as many as make 15 in a row, 3 at least.
        reach: How far a latent goes, in standard deviations of the prior.
        image: Start from an image of your own: `[H, W, C]`, bytes or floats in [0, 1].
        prior: Start from the `"mean"` of the prior or from a `"draw"` of it.
        seed: Of that draw, and of images that are random given their factors.
        quantiles: Let each latent go from one quantile of its codes to another, such as
            `(0.01, 0.99)`, in place of `reach`.
        inactive: `"grey"` latents whose mean does not vary, or `"hide"` those that no member uses.

    Returns:
        A picture, to be saved with `.save("members.png")`.
    """
    check_data(model, data)
    check_inactive(inactive)
    aligned, seen = _looks(model, data)
    count = max(FEWEST, round(PICTURES / len(seen))) if columns is None else columns
    walks = [stops(one, count, reach, quantiles) for one in seen]
    each = [model.members[k] for k in range(len(seen))]
    starts = [start_at(one, data, index, image, prior, seed) for one in each]
    codes = [way @ start.code for way, start in zip(aligned.ways, starts, strict=True)]
    if prior is not None:  # the same code for all
        codes = [starts[0].code] * len(each)
        own = [aligned.own(k, codes[k])[None] for k in range(len(each))]
        starts = [
            replace(start, pictures=pictures_of(one.decode(code)))
            for start, one, code in zip(starts, each, own, strict=True)
        ]
    names = [starts[0].name] + [("", "")] * (len(starts) - 1)
    strips = [Strip(s.pictures, *name) for s, name in zip(starts, names, strict=True)]
    first = Line(strips, ("agreement", ""))
    rest = [
        line_of(each, aligned, seen, codes, latent, [walk[latent] for walk in walks])
        for latent in _order(aligned, inactive)
    ]
    return _lay_out([first, *rest], range_in_words(seen[0], reach, quantiles))


def _looks(model: "Model", data: "Dataset") -> tuple[Aligned, list[Seen]]:
    """The codes of some images by all members, together and one by one."""
    chosen = drawn_rows(data, NUM_DRAWN, seed=0)
    aligned = aligned_posteriors(model, data.to(model.device).inputs(chosen))
    known = data.grid or data.labels
    factors = None if known is None else on_host(data.factors(chosen))
    names = () if known is None else known.names
    pairs = zip(aligned.means, aligned.logvars, strict=True)
    return aligned, [Seen(*pair, factors, names, standard_noise=False) for pair in pairs]


def _order(aligned: Aligned, inactive: Inactive) -> list[int]:
    """The latents to draw, those of most signal for their noise first."""
    ratio = aligned.means.var(1) / np.exp(aligned.logvars).mean(1)
    order = [int(j) for j in np.argsort(-ratio.mean(0), kind="stable")]
    shown = [j for j in order if aligned.used[j]] if inactive == "hide" else order
    if not shown:
        raise UnweaveError(
            "no member of this ensemble uses any latent, so none is left to draw; draw them in "
            "grey, or train it for longer"
        )
    return shown


def line_of(
    each: Sequence["Model"],
    aligned: Aligned,
    seen: Sequence[Seen],
    codes: Sequence[np.ndarray],
    latent: int,
    values: Sequence[np.ndarray],
) -> Line:
    """A latent of the first member in all of them.

    Args:
        each: The members.
        aligned: Codes of the data by all of them.
        seen: The same, one by one.
        codes: Where each member starts, in the order of the first, `[d]`.
        latent: Of the first member.
        values: That it takes in each member, in the direction of the first.
    """
    strips = []
    for member, model in enumerate(each):
        walk = np.repeat(codes[member][None], len(values[member]), axis=0)
        walk[:, latent] = values[member]
        decoded = pictures_of(model.decode(aligned.own(member, walk)))
        turned = "turned" if aligned.signs[member, latent] < 0 else ""
        note = label_of(seen[0], latent)[1] if member == 0 else turned
        name = f"latent {aligned.latents[member, latent]}"
        strips.append(Strip(decoded, name, note, not aligned.active[member, latent]))
    verdict = aligned.verdicts[latent]
    number = "" if verdict == "unused" else f"{aligned.agreement[latent]:.2f}".replace("-", "−")
    said = VERDICTS[verdict]
    return Line(strips, (number, said) if number else (said, ""), verdict == "disagree")


def _lay_out(lines: Sequence[Line], caption: str) -> Sheet:
    """Lines below the names of the members, and a caption below all."""
    shown = [
        [
            [faded(p) if strip.faint else p for p in map(enlarged, strip.pictures)]
            for strip in line.strips
        ]
        for line in lines
    ]
    width, height = shown[0][0][0].size
    size = int(TALLEST * height)
    font, line_height = letters(size), round(LEADING * size)
    gap, margin, apart = max(2, height // 16), height // 8, height // 2
    columns = max(len(strip) for row in shown for strip in row)
    film = columns * (width + gap) - gap
    labels = [
        round(max(_wide(font, line.strips[k].name, line.strips[k].note) for line in lines))
        + size // 2
        for k in range(len(lines[0].strips))
    ]
    left = [margin + sum(labels[:k]) + k * (film + apart) for k in range(len(labels))]
    end = left[-1] + labels[-1] + film + apart // 2
    total = round(end + max(_wide(font, *line.end) for line in lines)) + margin
    top = margin + line_height + gap
    tall = top + len(lines) * (height + gap) + line_height + margin
    sheet = Image.new("RGB", (total, tall), PAPER)
    draw = ImageDraw.Draw(sheet)
    for k, x in enumerate(left):
        draw.text((x + labels[k], margin), f"member {k}", fill=INK, font=font, anchor="la")
    boxes: list[list[tuple[int, int, int, int]]] = []
    for r, (line, row) in enumerate(zip(lines, shown, strict=True)):
        y = top + r * (height + gap)
        boxes.append([])
        for strip, pictures, x, label in zip(line.strips, row, left, labels, strict=True):
            inks = (FAINT if strip.faint else INK, FAINT)
            _words(draw, (x, y + height // 2), (strip.name, strip.note), size, inks)
            for c, picture in enumerate(pictures):
                place = x + label + c * (width + gap)
                sheet.paste(picture, (place, y))
                boxes[-1].append((place, y, place + width, y + height))
        inks = (INK, INK) if line.striking else (FAINT, FAINT)
        _words(draw, (end, y + height // 2), line.end, size, inks)
    draw.text((left[0] + labels[0], tall - margin), caption, fill=FAINT, font=font, anchor="ls")
    return Sheet(sheet, boxes)


def _wide(font: Any, *words: str) -> float:
    return max(font.getlength(word) for word in words)


def _words(
    draw: ImageDraw.ImageDraw,
    place: tuple[int, int],
    words: tuple[str, str],
    size: int,
    inks: tuple[str, str],
) -> None:
    """One or two lines, their middle at a height."""
    x, middle = place
    half = round(LEADING * size / 2) if words[1] else 0
    for word, ink, y in zip(words, inks, (middle - half, middle + half), strict=True):
        draw.text((x, y), word, fill=ink, font=letters(size), anchor="lm")
