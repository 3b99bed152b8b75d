"""Models in stages: what each makes of images, and what codes do that move or are swapped."""

from typing import TYPE_CHECKING

import numpy as np

from unweave.errors import UnweaveError
from unweave.io.arguments import check_count
from unweave.io.arrays import on_host
from unweave.models.drawn_images import drawn_rows
from unweave.plots.drawn_codes import check_data, look
from unweave.plots.sheet import MOST_PICTURES, Row, Sheet, lay_out, pictures_of
from unweave.plots.traversal_range import label_of, range_in_words, start_at, stops

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["stage_traversals", "stages", "swaps"]


def stages(model: "Model", data: "Dataset", count: int = 8, seed: int = 0) -> Sheet:
    """Draw images above what each stage makes of them.

    Args:
        model: A model of several stages, such as `MSVAE`.
        data: What it was trained on.
        count: How many images, drawn once each.
        seed: Of that draw.

    Returns:
        A picture, to be saved with `.save("stages.png")`.
    """
    _check_stages(model, data)
    images, codes = _drawn(model, data, count, seed)
    rows = [Row(pictures_of(images), "image")]
    for name, each, latents in _each_stage(model):
        rows.append(Row(pictures_of(each.decode(codes[:, :latents])), f"with {name}"))
    return lay_out(rows)


def swaps(model: "Model", data: "Dataset", count: int = 5, seed: int = 0) -> Sheet:
    """Draw all pairs of images with the first code of one and the second of the other.

    Along a row the last code stays and those before change, from image to image; down a column
    the last code changes. The first row has the images.

    Args:
        model: A model of several stages, such as `MSVAE`.
        data: What it was trained on.
        count: How many images, drawn once each.
        seed: Of that draw.

    Returns:
        A picture, to be saved with `.save("swaps.png")`.
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
    return lay_out(rows, f"{first} of the image above, Z of the image that the row names")


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
    """Draw what latents do at each stage: the most active of C in Y and in X, then those of Z.

    While a latent of C moves, Z stays as it is, and the other way round.

    Args:
        model: A model of several stages, such as `MSVAE`.
        data: What it was trained on.
        index: The image to start from; by default one in the middle of the grid, or the first.
        columns: Images per row.
        reach: How far a latent goes, in standard deviations of the prior.
        count: How many latents of each stage.
        seed: Of images that are random given their factors.

    Returns:
        A picture, to be saved with `.save("stage-traversals.png")`.
    """
    _check_stages(model, data)
    start, seen = start_at(model, data, index, None, None, seed), look(model, data)
    values = stops(seen, columns, reach, None)
    rows = [Row(start.pictures, *start.name)]
    of_stages = _each_stage(model)
    for place, own in enumerate(model.config.stages.values()):
        for latent in [int(k) for k in seen.order if k in own][:count]:
            codes = np.repeat(start.code[None], columns, axis=0)
            codes[:, latent] = values[latent]
            name, follows = label_of(seen, latent)
            for stage, each, latents in of_stages[place:]:
                note = follows if each is of_stages[place][1] else f"after {stage}"
                rows.append(Row(pictures_of(each.decode(codes[:, :latents])), name, note))
    return lay_out(rows, range_in_words(seen, reach, None))


def _each_stage(model: "Model") -> list[tuple[str, "Model", int]]:
    """The name of each stage, the model up to it, and how many latents that has."""
    models = [model]
    while models[0].config.first is not None:
        models.insert(0, models[0].first[0])
    names = model.config.stages
    return [(name, each, each.config.code_size) for name, each in zip(names, models, strict=True)]


def _drawn(
    model: "Model", data: "Dataset", count: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    check_count("count", count, 2, MOST_PICTURES)
    rows = drawn_rows(data, count, seed)
    images = on_host(data.images(rows, seed))
    return images, model.encode(images)[0]


def _check_stages(model: "Model", data: "Dataset") -> None:
    check_data(model, data)
    if model.config.first is None:
        raise UnweaveError(
            f"{model.config.method.name} models have one stage; train ms_vae over them for two"
        )
