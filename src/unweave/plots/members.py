"""Traversals of all ensemble members side by side, with matching latents in one row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from unweave.errors import UnweaveError
from unweave.io.arrays import on_host
from unweave.models.images import NUM_SAMPLED, sample_rows
from unweave.models.members import Aligned, aligned_posteriors
from unweave.plots.colours import FAINT, INK, PAPER
from unweave.plots.drawn_codes import DrawnCodes, check_data
from unweave.plots.sheet import LEADING, TALLEST, Row, Sheet, letters, pictures_of, two_lines
from unweave.plots.traversals import (
    Inactive,
    Prior,
    check_inactive,
    describe_range,
    label_of,
    start_at,
    traversal_values,
    vary_latent,
)

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["members"]

PICTURES, FEWEST = 15, 3
"""Approximate number of pictures per row, and the minimum per member."""
VERDICTS = {"agree": "", "disagree": "members disagree", "unused": "unused"}


@dataclass(frozen=True, eq=False)
class Line:
    """One row: a strip per member, and two lines of text about their agreement."""

    strips: Sequence[Row]
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
    """Plot the traversals of all members of an ensemble side by side.

    Each row shows a latent of the first member and the matching latent of every other member,
    found with the linear maps between members. If the signs differ, the latent is traversed in the
    opposite direction and marked "flipped", so all members should show the same change. The number
    at the end of a row is the mean correlation of the latent with its matches; below 0.7, members
    disagree. Rows are sorted by the ratio of the variance of means to the noise, because unused
    latents of an ensemble do not have zero KL divergence.

    Args:
        model: An ensemble of at least two members.
        data: Data set that the model was trained on.
        index: Index of the starting image (default: the middle of the grid, or the first image).
        columns: Images per member (default: 15 per row in total, but at least 3).
        reach: Largest absolute value of a latent, in standard deviations of the prior.
        image: Custom image to start from, `[H, W, C]`, bytes or floats in [0, 1].
        prior: Start from the `"mean"` of the prior or from a sample (`"draw"`).
        seed: Random seed for this sample and for images that are random given their factors.
        quantiles: Range of each latent as two quantiles of its codes, such as `(0.01, 0.99)`,
            instead of `reach`.
        inactive: `"grey"` latents whose mean does not vary, or `"hide"` those that no member uses.

    Returns:
        An image; save it with `.save("members.png")`.
    """
    check_data(model, data)
    check_inactive(inactive)
    aligned, drawn = _encode_members(model, data)
    count = max(FEWEST, round(PICTURES / len(drawn))) if columns is None else columns
    values = [traversal_values(one, count, reach, quantiles) for one in drawn]
    each = [model.members[k] for k in range(len(drawn))]
    starts = [start_at(one, data, index, image, prior, seed) for one in each]
    codes = [way @ start.code for way, start in zip(aligned.permutations, starts, strict=True)]
    if prior is not None:  # all members start from the same code
        codes = [starts[0].code] * len(each)
        own = [aligned.own(k, codes[k])[None] for k in range(len(each))]
        starts = [
            replace(start, pictures=pictures_of(one.decode(code)))
            for start, one, code in zip(starts, each, own, strict=True)
        ]
    names = [starts[0].name] + [("", "")] * (len(starts) - 1)
    strips = [Row(s.pictures, *name) for s, name in zip(starts, names, strict=True)]
    first = Line(strips, ("agreement", ""))
    rest = [
        line_of(each, aligned, drawn, codes, latent, [one[latent] for one in values])
        for latent in _order(aligned, inactive)
    ]
    return _lay_out([first, *rest], describe_range(drawn[0], reach, quantiles))


def _encode_members(model: "Model", data: "Dataset") -> tuple[Aligned, list[DrawnCodes]]:
    """Encode sampled images with all members; return the aligned codes and those of each."""
    chosen = sample_rows(data, NUM_SAMPLED, seed=0)
    aligned = aligned_posteriors(model, data.to(model.device).inputs(chosen))
    known = data.grid or data.labels
    factors = None if known is None else on_host(data.factors(chosen))
    names = () if known is None else known.names
    pairs = zip(aligned.means, aligned.logvars, strict=True)
    return aligned, [DrawnCodes(*pair, factors, names, standard_noise=False) for pair in pairs]


def _order(aligned: Aligned, inactive: Inactive) -> list[int]:
    """Return the latents to plot, sorted by signal-to-noise ratio."""
    ratio = aligned.means.var(1) / np.exp(aligned.logvars).mean(1)
    order = [int(j) for j in np.argsort(-ratio.mean(0), kind="stable")]
    shown = [j for j in order if aligned.used[j]] if inactive == "hide" else order
    if not shown:
        raise UnweaveError(
            "no latent is active in any member; use inactive='grey' to plot them anyway, or train "
            "the ensemble for longer",
            subject="inactive",
            value=inactive,
        )
    return shown


def line_of(
    each: Sequence["Model"],
    aligned: Aligned,
    drawn: Sequence[DrawnCodes],
    codes: Sequence[np.ndarray],
    latent: int,
    values: Sequence[np.ndarray],
) -> Line:
    """Traverse one latent of the first member in all members.

    Each member starts from its code `[d]`. Codes and values use the latent order and signs of the
    first member.
    """
    strips = []
    for member, model in enumerate(each):
        traversed = vary_latent(codes[member], latent, values[member])
        decoded = pictures_of(model.decode(aligned.own(member, traversed)))
        flipped = "flipped" if aligned.signs[member, latent] < 0 else ""
        note = label_of(drawn[0], latent)[1] if member == 0 else flipped
        name = f"latent {aligned.latents[member, latent]}"
        strips.append(Row(decoded, name, note, faint=not aligned.active[member, latent]))
    verdict = aligned.verdicts[latent]
    number = "" if verdict == "unused" else f"{aligned.agreement[latent]:.2f}".replace("-", "−")
    text = VERDICTS[verdict]
    return Line(strips, (number, text) if number else (text, ""), verdict == "disagree")


def _lay_out(lines: Sequence[Line], caption: str) -> Sheet:
    """Lay out the rows under the names of the members, with a caption at the bottom."""
    shown = [[strip.shown for strip in line.strips] for line in lines]
    width, height = shown[0][0][0].size
    size = int(TALLEST * height)
    font, line_height = letters(size), round(LEADING * size)
    gap, margin, between = max(2, height // 16), height // 8, height // 2
    columns = max(len(strip) for row in shown for strip in row)
    film = columns * (width + gap) - gap
    labels = [
        round(max(_text_width(font, line.strips[k].name, line.strips[k].note) for line in lines))
        + size // 2
        for k in range(len(lines[0].strips))
    ]
    left = [margin + sum(labels[:k]) + k * (film + between) for k in range(len(labels))]
    end = left[-1] + labels[-1] + film + between // 2
    total = round(end + max(_text_width(font, *line.end) for line in lines)) + margin
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
            label_lines = (strip.name, strip.note)
            two_lines(draw, (x, y + height // 2), label_lines, size, strip.inks)
            for c, picture in enumerate(pictures):
                place = x + label + c * (width + gap)
                sheet.paste(picture, (place, y))
                boxes[-1].append((place, y, place + width, y + height))
        inks = (INK, INK) if line.striking else (FAINT, FAINT)
        two_lines(draw, (end, y + height // 2), line.end, size, inks)
    draw.text((left[0] + labels[0], tall - margin), caption, fill=FAINT, font=font, anchor="ls")
    return Sheet(sheet, boxes)


def _text_width(font: Any, *lines: str) -> float:
    return max(font.getlength(line) for line in lines)
