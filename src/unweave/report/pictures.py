"""Pictures of a report: traversals and contact sheets as small base64-encoded WebP files.

Shapes: R rows of pictures, `COLUMNS` in each, H × W pixels, C channels.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from unweave.analysis.activity import KL
from unweave.data.dataset import Dataset
from unweave.data.pictures import viewable
from unweave.errors import UnweaveError
from unweave.io.arrays import on_host
from unweave.models.model import Model
from unweave.plots.contact_sheet import traversal
from unweave.plots.traversals import middle_index
from unweave.progress import lines
from unweave.report.comparison import Findings, Part, followed
from unweave.report.labels import latent_label, listed
from unweave.report.saved_runs import DIVERGED
from unweave.text import counted

COLUMNS = 7
MOST_ROWS = 12
LEVELS = (
    (128, 85),
    (96, 80),
    (64, 80),
    (64, 60),
    (48, 55),
    (32, 50),
    (32, 30),
    (24, 25),
    (16, 20),
)
"""Picture sizes in pixels and WebP qualities, from best to worst."""
PERCENTILES = (2, 98)
STILL = 0.02
"""Without images, latents that change the output by less than this share of the largest change
count as inactive."""
LEAST_PICTURE = 1_500
"""Minimum number of characters of a useful picture."""
HERO, FACTOR, SHEET = 0.04, 0.003, 0.012
"""Maximum shares of the size limit for single pictures."""
NAMED = 0.5
"""Share of a code's variance that a known factor must explain to be named on the page."""
FIRST_LEVEL, HERO_LEVEL = 2, 0
DRAWING = "rendering traversals"


@dataclass(frozen=True, eq=False)
class Strips:
    """Rows of pictures."""

    images: np.ndarray  # bytes `[R, COLUMNS, H, W, C]`
    latents: Sequence[int]  # the latent of each row, if rows are latents
    notes: Sequence[str]  # label of each row


def traversed(model: Model, part: Part, run: str, only: int | None = None) -> Strips:
    """Traverse each clear latent over its range, or each active one if none is clear.

    The range goes from the 2nd to the 98th percentile of the codes. Latents are sorted by KL
    divergence or, for autoencoders, by the spread of the codes. Without images, the range is that
    of the prior around its mean, and latents are sorted by how much they change the output.
    Methods without a decoder have no rows.

    Args:
        model: The model.
        part: Part of the report that it belongs to.
        run: Its run.
        only: The only latent to traverse (default: those described above).
    """
    if not model.config.method.decodes:
        return Strips(viewable(np.empty((0, COLUMNS, *model.shape), np.uint8)), [], [])
    place = part.compared.index(run) if run in part.compared else -1
    if part.data is None or part.latents is None or place < 0:
        return _around_the_prior(model)
    activity = part.activity[place]
    if activity is None or not activity.active.any():
        return Strips(viewable(np.empty((0, COLUMNS, *model.shape), np.uint8)), [], [])
    codes, amount = part.latents.means[place], activity.amounts
    note = "{:.2f} nats" if activity.criterion is KL else "spread {:.2f}"
    chosen = activity.clear if activity.clear.any() else activity.active
    active = activity.order[chosen[activity.order]][:MOST_ROWS]
    active = active if only is None else np.array([only])
    start, _ = _middle_code(model, part.data)
    ends = np.percentile(codes, PERCENTILES, axis=0)
    images = _decoded(model, start[0], active, ends[0], ends[1])
    return Strips(images, active.tolist(), [note.format(amount[latent]) for latent in active])


def _middle_code(model: Model, data: Dataset) -> tuple[np.ndarray, Any]:
    """Return the mean code of the image in the middle of the grid, `[1, d]`, and the image."""
    rows = [middle_index(data)]
    image = data.to("cpu").inputs(rows)
    return model.encode(image, factors=model.factors_of(data, rows))[0], image


def shown_and_rebuilt(model: Model, data: Dataset) -> np.ndarray:
    """Return an image and its reconstruction, bytes `[1, 2, H, W, C]`."""
    mean, image = _middle_code(model, data)
    pixels = np.asarray(image) if str(image.dtype) == "torch.uint8" else _bytes(np.asarray(image))
    return viewable(np.stack([pixels[0], _bytes(model.decode(mean))[0]])[None])


def data_sheet(data: Dataset) -> Strips:
    """Return one row per factor with the others held at their middle value, or random images."""
    if data.grid is None:
        drawn = np.asarray(data.support)
        drawn = np.random.default_rng(0).permutation(drawn)[: 3 * COLUMNS]
        rows = [drawn[k : k + COLUMNS] for k in range(0, len(drawn), COLUMNS)]
        names = [""] * len(rows)
    else:
        axes = [axis for axis in data.grid.axes if len(axis) > 1][:MOST_ROWS]
        rows = [traversal(data, axis.name, COLUMNS)[1] for axis in axes]
        names = [f"{axis.name} ({len(axis)})" for axis in axes]
    height, width, _ = data.shape
    images = np.zeros((len(rows), COLUMNS, height, width, 4), np.uint8)
    for r, indices in enumerate(rows):
        images[r, : len(indices), ..., :3] = viewable(on_host(data.images(indices)))
        images[r, : len(indices), ..., 3] = 255
    return Strips(images, [], names)


def webp(images: np.ndarray, side: int, quality: int) -> bytes:
    """Encode rows of pictures as one WebP file, each at most `side` pixels high and wide.

    Args:
        images: Bytes `[R, columns, H, W, C]`, greyscale, RGB or RGBA.
        side: Maximum side in pixels.
        quality: WebP quality, from 0 to 100.
    """
    rows, columns, height, width, channels = images.shape
    sheet = images.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, channels)
    picture = Image.fromarray(sheet[..., 0] if channels == 1 else sheet)
    share = min(1.0, side / max(height, width))
    if share < 1:
        size = (columns * max(1, round(width * share)), rows * max(1, round(height * share)))
        picture = picture.resize(size, Image.Resampling.BOX)
    file = io.BytesIO()
    picture.save(file, "WEBP", quality=quality, method=4)
    return file.getvalue()


def fitted(images: np.ndarray, most: int, first: int = 0) -> tuple[str, int]:
    """Encode a picture as base64 with the best quality that fits into `most` characters.

    Args:
        images: Bytes `[R, columns, H, W, C]`.
        most: Maximum number of base64 characters.
        first: First of the `LEVELS` to try.

    Returns:
        The base64 text, empty if even the lowest quality does not fit, and the level used.
    """
    if not images.size:
        return "", first
    for level in range(first, len(LEVELS)):
        text = base64.b64encode(webp(images, *LEVELS[level])).decode()
        if len(text) <= most:
            return text, level
    return "", len(LEVELS) - 1


def _around_the_prior(model: Model) -> Strips:
    size = model.config.code_size
    edge = np.full(size, 2.0)
    images = _decoded(model, np.zeros(size), np.arange(size), -edge, edge)
    change = images.astype(float).std(1).mean((1, 2, 3))
    used = np.argsort(-change, kind="stable")
    used = used[change[used] > STILL * change.max()][:MOST_ROWS]
    return Strips(images[used], used.tolist(), [""] * len(used))


def _decoded(
    model: Model, start: np.ndarray, latents: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Decode images `[R, COLUMNS, H, W, C]` while each latent goes from low to high."""
    codes = np.tile(start, (len(latents), COLUMNS, 1))
    for row, latent in enumerate(latents):
        codes[row, :, latent] = np.linspace(low[latent], high[latent], COLUMNS)
    decoded = viewable(model.decode(codes.reshape(-1, codes.shape[-1])))
    return _bytes(decoded).reshape(len(latents), COLUMNS, *decoded.shape[1:])


def _bytes(pixels: np.ndarray) -> np.ndarray:
    """Convert pixels to bytes; NaN becomes black."""
    return np.rint(np.clip(np.nan_to_num(pixels), 0, 1) * 255).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class StillPictures:
    """The pictures of each part that do not depend on the number of models."""

    heroes: Sequence[Mapping[str, Any] | None]
    factors: Sequence[Sequence[Mapping[str, Any]]]
    sheets: Sequence[Mapping[str, Any] | None]


def still_pictures(found: Findings, limit: int) -> StillPictures:
    """Render these pictures, each within its share of the size limit."""
    share = limit / max(1, len(found.parts))
    return StillPictures(
        [_hero(found, part, int(HERO * share)) for part in found.parts],
        [_factors(found, part, int(FACTOR * share)) for part in found.parts],
        [_sheet(part, int(SHEET * share)) for part in found.parts],
    )


def _hero(found: Findings, part: Part, most: int) -> Mapping[str, Any] | None:
    if part.chosen is None:
        return None
    try:
        model = found.open(part.chosen)
    except UnweaveError:
        return None
    strips = traversed(model, part, part.chosen)
    picture, _ = fitted(strips.images, most, HERO_LEVEL)
    if not picture:
        return None
    pair = ""
    if part.data is not None:
        pair, _ = fitted(shown_and_rebuilt(model, part.data), most // 4, HERO_LEVEL)
    return {
        "picture": picture,
        "pair": pair,
        "rows": _row_labels(part, part.chosen, strips, found.given.latent_names(part.chosen)),
        "latents": _latents_text(part),
        "name": found.names[part.chosen],
        "members": model.config.method.num_members,
    }


def _factors(found: Findings, part: Part, most: int) -> list[Mapping[str, Any]]:
    """Return the shared factors, each with a traversal by the model that matches it best."""
    if part.agreed is None:
        return []
    rows: list[Mapping[str, Any]] = []
    for factor in part.agreed.factors.itertuples():
        members = part.agreed.members
        members = members[members["factor"] == factor.factor]
        best = members.loc[members["correlation"].idxmax()]
        run = part.compared[int(best["model"])]
        model = found.open(run)
        strips = traversed(model, part, run, only=int(best["latent"]))
        # Flip the traversal if the sign of this latent is opposite to that of the factor.
        images = strips.images[:, :: 1 if best["sign"] > 0 else -1]
        picture, _ = fitted(images, most, FIRST_LEVEL)
        follows = part.follows[factor.factor] if part.follows else None
        rows.append(
            {
                "number": factor.factor + 1,
                "found_by": int(factor.found_by),
                "of": int(factor.of),
                "correlation": f"{factor.correlation:.2f}",
                "best": found.names[run],
                "latent": latent_label(int(best["latent"]), found.given.latent_names(run)),
                "picture": picture,
                "follows": follows,
            }
        )
    return rows


def _sheet(part: Part, most: int) -> Mapping[str, Any] | None:
    if part.data is None or hasattr(part.data, "curves"):
        return None
    strips = data_sheet(part.data)
    picture, _ = fitted(strips.images, most, FIRST_LEVEL)
    return {"picture": picture, "rows": strips.notes} if picture else None


def _latents_text(part: Part) -> str:
    """Return a sentence on how many latents are clear, and which are not."""
    activity = part.chosen_activity
    if activity is None:
        return ""
    clear, count = activity.clear, len(activity.clear)
    limit = f" (more than {activity.clear_threshold:g} nats)" if activity.criterion is KL else ""
    idle = [f"z{latent}" for latent in np.flatnonzero(~clear)]
    few = listed(idle) if len(idle) <= MOST_ROWS else f"{len(idle)} others"
    others = f"Inactive: {few}." if idle else ""
    verb = "are clear" if count > 1 else "is clear"
    return f"{clear.sum()} of {counted(count, 'latent')} {verb}{limit}. {others}".strip()


def _row_labels(
    part: Part, run: str, strips: Strips, names: Mapping[int, str] = MappingProxyType({})
) -> list[Mapping[str, Any]]:
    """Return the number of each latent, its name, its KL, and its shared factor if any."""
    factors: dict[int, int] = {}
    if part.agreed is not None and run in part.compared:
        members = part.agreed.members
        own = members[members["run"] == run]
        factors = dict(zip(own["latent"], own["factor"], strict=True))
    rows: list[Mapping[str, Any]] = []
    for latent, note in zip(strips.latents, strips.notes, strict=True):
        factor = factors.get(latent)
        follows = "" if factor is None else _name(part, run, latent, factor)
        number = None if factor is None else int(factor) + 1
        rows.append(
            {
                "latent": latent,
                "name": names.get(latent, ""),
                "note": note,
                "factor": number,
                "follows": follows,
            }
        )
    return rows


def _name(part: Part, run: str, latent: int, factor: int) -> str:
    """Return the known factor that both a shared factor and this latent follow, if any."""
    if not part.follows or part.latents is None:
        return ""
    own = part.latents.means[part.compared.index(run)][:, latent]
    (name, share), (own_name, own_share) = part.follows[factor], followed(part, own)
    return name if name == own_name and min(share, own_share) >= NAMED else ""


def strips_of(
    found: Findings, board: pd.DataFrame, room: int, progress: bool
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Render traversals of as many models as fit, the chosen and best ones first.

    Returns:
        The traversals by run, and the errors of models that cannot be loaded, by run.
    """
    order = board.assign(first=~board["run"].isin(found.chosen)).sort_values(
        ["first", "udr"], ascending=[True, False], na_position="last", kind="stable"
    )
    runs = order.loc[order["state"] != DIVERGED, "run"].tolist()
    overhead = 400
    runs = runs[: max(0, room // (LEAST_PICTURE + overhead))]
    strips: dict[str, dict[str, Any]] = {}
    unopened: dict[str, str] = {}
    level = FIRST_LEVEL
    with lines({DRAWING: len(runs)} if runs else {}, progress) as advance:
        for done, run in enumerate(runs):
            part = found.part_of(run)
            try:
                model = found.open(run)
            except UnweaveError as error:
                unopened[run] = str(error)
                room -= overhead
                continue
            drawn = traversed(model, part, run)
            share = room // (len(runs) - done) - overhead
            # Space left by earlier models may allow a higher quality, so try one level up.
            picture, level = fitted(drawn.images, share, max(FIRST_LEVEL, level - 1))
            labels = [
                [row["latent"], row["note"], row["factor"], row["name"]]
                for row in _row_labels(part, run, drawn, found.given.latent_names(run))
            ]
            if picture or not labels:
                strips[run] = {"picture": picture, "rows": labels}
            room -= len(picture) + overhead
            advance(DRAWING, 1)
    return strips, unopened
