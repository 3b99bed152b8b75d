"""Reconstructions of images, and samples from the prior."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unweave.errors import DataError, UnweaveError
from unweave.io.arguments import check_count
from unweave.io.arrays import on_host
from unweave.models.images import sample_rows
from unweave.plots.drawn_codes import check_data
from unweave.plots.sheet import (
    MOST_COLUMNS,
    MOST_PICTURES,
    Row,
    Sheet,
    lay_out,
    pictures_of,
)
from unweave.plots.traversals import draw_prior

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
    """Plot images above their reconstructions, decoded from the mean codes.

    Args:
        model: A trained model.
        data: Data set that the model was trained on.
        count: Number of images, sampled without replacement.
        seed: Random seed for this sample and for images that are random given their factors.
        indices: Indices of the images to reconstruct, instead of a random sample.
        columns: Images per row (default 10).

    Returns:
        An image; save it with `.save("reconstructions.png")`.
    """
    check_data(model, data)
    _check_counts(count, columns)
    chosen = sample_rows(data, max(count, 2), seed)[:count] if indices is None else indices
    places = np.asarray(chosen, dtype=np.int64).reshape(-1)
    if not len(places) or places.min() < 0 or places.max() >= len(data):
        raise DataError.must(
            "indices", f"be from 0 to {len(data) - 1:,} for {data.name}", places.tolist()
        )
    images = on_host(data.images(places, seed))
    # Encode the exact values; random parts of an image are rounded to bytes only for display.
    inputs, factors = data.to(model.device).inputs(places, seed), model.factors_of(data, places)
    mean, _ = model.encode(inputs, factors=factors)
    above, below = pictures_of(images), pictures_of(model.decode(mean))
    rows = []
    for start in range(0, len(places), columns):
        part = slice(start, start + columns)
        rows += [Row(above[part], "image"), Row(below[part], "decoded")]
    return lay_out(rows)


def samples(model: "Model", count: int = 40, seed: int = 0, *, columns: int = 10) -> Sheet:
    """Plot images decoded from codes sampled from the prior.

    Args:
        model: A trained model.
        count: Number of images.
        seed: Random seed for the codes; a larger `count` extends the same sequence.
        columns: Images per row.

    Returns:
        An image; save it with `.save("samples.png")`.
    """
    _check_counts(count, columns)
    if min(model.shape[:2]) == 1:
        raise UnweaveError(
            f"samples needs a model of images, got one of shape {list(model.shape)}; use "
            "model.decode instead",
            subject="model",
            value=model.shape,
        )
    pictures = pictures_of(model.decode(draw_prior(model, count, seed)))
    return lay_out([Row(pictures[k : k + columns]) for k in range(0, count, columns)])


def _check_counts(count: int, columns: int) -> None:
    check_count("count", count, 1, MOST_PICTURES)
    check_count("columns", columns, 1, MOST_COLUMNS)
