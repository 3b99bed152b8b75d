"""Reconstructions and samples: what a model makes of images, and out of nothing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unweave.errors import DataError, UnweaveError
from unweave.io.arguments import check_count
from unweave.io.arrays import on_host
from unweave.models.drawn_images import drawn_rows
from unweave.plots.drawn_codes import check_data
from unweave.plots.sheet import (
    MOST_COLUMNS,
    MOST_PICTURES,
    Row,
    Sheet,
    lay_out,
    pictures_of,
)
from unweave.plots.traversal_range import draw_prior

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["reconstructions", "samples"]


def reconstructions(
    model: "Model",
    data: "Dataset",
    count: int = 10,
    seed: int = 0,
    *,
    indices: Sequence[int] | None = None,
    columns: int = 10,
) -> Sheet:
    """Draw images above what the model decodes from their mean codes.

    Args:
        model: A trained model.
        data: What it was trained on.
        count: How many images, drawn once each.
        seed: Of that draw, and of images that are random given their factors.
        indices: These images instead.
        columns: Images per row; more go below, again above their reconstructions.

    Returns:
        A picture, to be saved with `.save("reconstructions.png")`.
    """
    check_data(model, data)
    _check_counts(count, columns)
    chosen = drawn_rows(data, max(count, 2), seed)[:count] if indices is None else indices
    places = np.asarray(chosen, dtype=np.int64).reshape(-1)
    if not len(places) or places.min() < 0 or places.max() >= len(data):
        raise DataError(
            f"{data.name} has images 0 … {len(data) - 1:,}, but got indices {list(places)!s:.60}"
        )
    images = on_host(data.images(places, seed))
    # What is random in an image is rounded to bytes only to be shown.
    mean, _ = model.encode(data.to(model.device).inputs(places, seed))
    above, below = pictures_of(images), pictures_of(model.decode(mean))
    rows = []
    for start in range(0, len(places), columns):
        part = slice(start, start + columns)
        rows += [Row(above[part], "image"), Row(below[part], "decoded")]
    return lay_out(rows)


def samples(model: "Model", count: int = 40, seed: int = 0, *, columns: int = 10) -> Sheet:
    """Draw what the model decodes from codes drawn from its prior.

    Args:
        model: A trained model.
        count: How many images.
        seed: Of the codes; of one seed, fewer are the first of more.
        columns: Images per row.

    Returns:
        A picture, to be saved with `.save("samples.png")`.
    """
    _check_counts(count, columns)
    if min(model.shape[:2]) == 1:
        raise UnweaveError("this model makes rows of numbers and no images; decode them instead")
    pictures = pictures_of(model.decode(draw_prior(model, count, seed)))
    return lay_out([Row(pictures[k : k + columns]) for k in range(0, count, columns)])


def _check_counts(count: int, columns: int) -> None:
    check_count("count", count, 1, MOST_PICTURES)
    check_count("columns", columns, 1, MOST_COLUMNS)
