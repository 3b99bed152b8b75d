"""The pictures of a report: traversals, strips and sheets as small WebP files in text.

Shapes: R rows of pictures, `COLUMNS` in each, H × W pixels, C channels.
"""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from unweave.analysis.activity import KL
from unweave.data.dataset import Dataset
from unweave.io.arrays import on_host
from unweave.models.model import Model
from unweave.plots.contact_sheet import traversal
from unweave.plots.traversal_range import middle
from unweave.report.agreement import Part

__all__ = ["COLUMNS", "Strips", "data_sheet", "fitted", "reversed_strip", "traversed", "webp"]

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
"""Side of a picture and quality, from what a large picture deserves to the least that is worth."""
PERCENTILES = (2, 98)
STILL = 0.02
"""Without images to go by, latents that change images less than this share of the most do not
count as used."""


@dataclass(frozen=True, eq=False)
class Strips:
    """Rows of pictures.

    Args:
        images: Bytes `[R, COLUMNS, H, W, C]`.
        latents: The latent of each row, where rows are latents.
        notes: What to say of each row.
    """

    images: np.ndarray
    latents: Sequence[int]
    notes: Sequence[str]


def traversed(model: Model, part: Part, run: str) -> Strips:
    """What an image does while each active latent in turn goes through its range.

    The range is that of the codes, from the 2nd to the 98th percentile. Latents are sorted by
    their KL divergence; of an autoencoder, which has none, by how far the codes spread. Without
    images it is the range of the prior, around its mean, and latents are sorted by how much they
    change. Of a method that decodes nothing there are no rows.
    """
    if not model.config.method.decodes:
        return Strips(np.empty((0, COLUMNS, *model.shape), np.uint8), [], [])
    place = part.compared.index(run) if run in part.compared else -1
    if part.data is None or part.latents is None or place < 0:
        return _around_the_prior(model)
    activity = part.activity[place]
    if activity is None or not activity.active.any():
        return Strips(np.empty((0, COLUMNS, *model.shape), np.uint8), [], [])
    codes, amount = part.latents.means[place], activity.amounts
    note = "{:.2f} nats" if activity.criterion is KL else "spread {:.2f}"
    active = activity.order[activity.active[activity.order]][:MOST_ROWS]
    start, _ = model.encode(part.data.to("cpu").inputs([middle(part.data)]))
    ends = np.percentile(codes, PERCENTILES, axis=0)
    images = _decoded(model, start[0], active, ends[0], ends[1])
    return Strips(images, active.tolist(), [note.format(amount[latent]) for latent in active])


def shown_and_rebuilt(model: Model, data: Dataset) -> np.ndarray:
    """An image and its reconstruction, bytes `[1, 2, H, W, C]`."""
    image = data.to("cpu").inputs([middle(data)])
    mean, _ = model.encode(image)
    pixels = np.asarray(image) if str(image.dtype) == "torch.uint8" else _bytes(np.asarray(image))
    return np.stack([pixels[0], _bytes(model.decode(mean))[0]])[None]


def data_sheet(data: Dataset) -> Strips:
    """One row for each factor, the others at their middle; or images drawn at random."""
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
        images[r, : len(indices), ..., :3] = on_host(data.images(indices))
        images[r, : len(indices), ..., 3] = 255
    return Strips(images, [], names)


def reversed_strip(images: np.ndarray, sign: int) -> np.ndarray:
    """A row in the direction in which all members of a factor point."""
    return images if sign > 0 else images[:, ::-1]


def webp(images: np.ndarray, side: int, quality: int) -> bytes:
    """Rows of pictures as one WebP file, each picture at most `side` pixels high and wide.

    Args:
        images: Grey, coloured, or coloured and where there is a picture at all.
        side: In pixels.
        quality: 0 … 100.
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
    """A picture as text for a page, of the best quality that takes at most so many characters.

    Args:
        images: Bytes `[R, columns, H, W, C]`.
        most: Characters of base64.
        first: The best of `LEVELS` to try.

    Returns:
        The text, empty where even the least quality takes more; and the level that was taken.
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
    """Images `[R, COLUMNS, H, W, C]` while each latent goes from low to high."""
    codes = np.tile(start, (len(latents), COLUMNS, 1))
    for row, latent in enumerate(latents):
        codes[row, :, latent] = np.linspace(low[latent], high[latent], COLUMNS)
    decoded = model.decode(codes.reshape(-1, codes.shape[-1]))
    return _bytes(decoded).reshape(len(latents), COLUMNS, *model.shape)


def _bytes(pixels: np.ndarray) -> np.ndarray:
    """Bytes; black where a lost model says nothing."""
    return np.rint(np.clip(np.nan_to_num(pixels), 0, 1) * 255).astype(np.uint8)
