"""Plots of multi-stage models: reconstructions, traversals and swapped codes."""

from typing import TYPE_CHECKING

import numpy as np

from unweave.errors import UnweaveError
from unweave.io.arguments import check_count
from unweave.io.arrays import on_host
from unweave.models.images import sample_rows
from unweave.plots.drawn_codes import check_data, draw_codes
from unweave.plots.sheet import MOST_PICTURES, Row, Sheet, lay_out, pictures_of
from unweave.plots.traversals import (
    describe_range,
    label_of,
    start_at,
    traversal_values,
    vary_latent,
)

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["stage_traversals", "stages", "swaps"]


def stages(model: "Model", data: "Dataset", count: int = 8, seed: int = 0) -> Sheet:
    """Plot images above their reconstruction by each stage.

    Args:
        model: A multi-stage model, such as `MSVAE`.
        data: Data set that the model was trained on.
        count: Number of images, sampled without replacement.
        seed: Random seed for this sample.

    Returns:
        An image; save it with `.save("stages.png")`.
    """
    _check_stages(model, data)
    images, codes = _drawn(model, data, count, seed)
    rows = [Row(pictures_of(images), "image")]
    for name, each, latents in _each_stage(model):
        rows.append(Row(pictures_of(each.decode(codes[:, :latents])), f"with {name}"))
    return lay_out(rows)


def swaps(model: "Model", data: "Dataset", count: int = 5, seed: int = 0) -> Sheet:
    """Plot combinations of the first-stage code of one image and the last-stage code of another.

    The first row shows the images. Below, each row has a fixed last-stage code, and each column
    has fixed codes of the earlier stages.

    Args:
        model: A multi-stage model, such as `MSVAE`.
        data: Data set that the model was trained on.
        count: Number of images, sampled without replacement.
        seed: Random seed for this sample.

    Returns:
        An image; save it with `.save("swaps.png")`.
    """
    _check_stages(model, data)
    images, codes = _drawn(model, data, count, seed)
    border = model.config.code_size - model.config.latents
    rows = [Row(pictures_of(images), "image")]
    for place, own in enumerate(codes):
        mixed = codes.copy()
        mixed[:, border:] = own[border:]
        rows.append(Row(pictures_of(model.decode(mixed)), f"Z of {place + 1}"))
    first = ", ".join(list(model.config.stages)[:-1])
    return lay_out(rows, f"{first} of the image at the top, Z of the image named on the left")


def stage_traversals(
    model: "Model",
    data: "Dataset",
    index: int | None = None,
    columns: int = 9,
    reach: float = 2.5,
    *,
    count: int = 3,
    seed: int = 0,
) -> Sheet:
    """Plot traversals at each stage: the most active latents of C in Y and X, then those of Z.

    While a latent of C varies, Z stays fixed, and vice versa.

    Args:
        model: A multi-stage model, such as `MSVAE`.
        data: Data set that the model was trained on.
        index: Index of the starting image (default: the middle of the grid, or the first image).
        columns: Images per row.
        reach: Largest absolute value of a latent, in standard deviations of the prior.
        count: Number of latents per stage.
        seed: Random seed for images that are random given their factors.

    Returns:
        An image; save it with `.save("stage-traversals.png")`.
    """
    _check_stages(model, data)
    start, drawn = start_at(model, data, index, None, None, seed), draw_codes(model, data)
    values = traversal_values(drawn, columns, reach, None)
    rows = [Row(start.pictures, *start.name)]
    of_stages = _each_stage(model)
    for place, own in enumerate(model.config.stages.values()):
        for latent in [int(k) for k in drawn.order if k in own][:count]:
            codes = vary_latent(start.code, latent, values[latent])
            name, follows = label_of(drawn, latent)
            for stage, each, latents in of_stages[place:]:
                note = follows if each is of_stages[place][1] else f"after {stage}"
                rows.append(Row(pictures_of(each.decode(codes[:, :latents])), name, note))
    return lay_out(rows, describe_range(drawn, reach, None))


def _each_stage(model: "Model") -> list[tuple[str, "Model", int]]:
    """Return the name of each stage, the model up to that stage, and its number of latents."""
    models = [model]
    while models[0].config.first is not None:
        models.insert(0, models[0].first[0])
    names = model.config.stages
    return [(name, each, each.config.code_size) for name, each in zip(names, models, strict=True)]


def _drawn(
    model: "Model", data: "Dataset", count: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    check_count("count", count, 2, MOST_PICTURES)
    rows = sample_rows(data, count, seed)
    images = on_host(data.images(rows, seed))
    return images, model.encode(images)[0]


def _check_stages(model: "Model", data: "Dataset") -> None:
    check_data(model, data)
    if model.config.first is None:
        stages = "have several stages, such as ms_vae on top of another model"
        raise UnweaveError.must("model", stages, model.config.method.name)
