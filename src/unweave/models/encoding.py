"""Encode images with trained models: the one function that does it, and its codes as a table.

Shapes: M models, n images, d latents.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from unweave.data import load as load_data
from unweave.data.catalog import is_named
from unweave.data.custom import SIZES
from unweave.data.dataset import Dataset
from unweave.errors import DataError, UnweaveError
from unweave.io.arguments import check_seed
from unweave.models.config import group_into_fleets
from unweave.models.finding import one_model
from unweave.models.join import join
from unweave.models.members import Aligned, aligned_posteriors, signed_permutations
from unweave.models.model import Fleet, Model
from unweave.models.shapes import check_shape
from unweave.nets.device import chosen_device
from unweave.progress import lines
from unweave.text import size_text, spelled

__all__ = ["MEAN", "Member", "check_member", "encode", "images_for", "posteriors"]

MEAN: Literal["mean"] = "mean"
Member = int | Literal["mean"]
"""A member of an ensemble, or the mean of all of them."""

ENCODING = "encoding images"
ROWS_AT_ONCE = 32_768
COMPARED = 10_000
"""Images, at most, on which the codes of members are compared."""


def encode(
    model: Model | str | Path,
    source: Any,
    *,
    member: Member = 0,
    logvar: bool = False,
    spread: bool = False,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool = True,
    **options: Any,
) -> pd.DataFrame:
    """The codes of images as a table, one row per image.

    Args:
        model: A model, the folder of one, or a folder that has it in `best`.
        source: A data set, or what `uw.data.load` takes; your own images are resized and made grey
            or coloured as the model needs them.
        member: Of an ensemble: the number of the member that encodes, its latents in its own
            order; or `"mean"`: the mean of all members, the latents of each as those of the first.
        logvar: Whether to add the log-variances of the codes; of the mean, that of the mean σ².
        spread: Whether to add the standard deviation of codes over members; with `"mean"`.
        seed: For a data set whose images are random given their factors, the draw to encode.
        device: By default a GPU where there is one.
        progress: Whether to show how far it is.
        options: Of `uw.data.load`, where `source` is a name.

    Returns:
        `file`, where each image has one, the means `z0`, `z1` …, then `logvar0`, `logvar1` …, then
        `spread0`, `spread1` …. With `"mean"` and at least two images, `table.attrs["agreement"]`
        says of each latent how far members agree, and `table.attrs["members"]` whether they
        `"agree"`, `"disagree"`, or leave it `"unused"`.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> fleet = uw.train(uw.methods.VAE(), data, steps=2, batch=8, latents=3, progress=False)
        >>> table = encode(fleet[0], data, logvar=True)
        >>> table.shape, table.columns.tolist()
        ((1024, 6), ['z0', 'z1', 'z2', 'logvar0', 'logvar1', 'logvar2'])
    """
    model = model if isinstance(model, Model) else one_model(model)
    check_trained(model)
    check_seed(seed)
    place = chosen_device(device)
    data = source if isinstance(source, Dataset) else images_for(model, source, **options)
    check_shape(model.shape, data.shape, data.name)
    check_member(model, member)
    if spread and member != MEAN:
        raise UnweaveError("codes of one member have no spread; ask for the mean of all members")
    placed = model.to(place)
    sample: list[Aligned] = []
    with lines({ENCODING: len(data)}, shown=progress) as advance:
        told = partial(advance, ENCODING)
        if member == MEAN:
            parts = _together(placed, data, seed, sample, told)
        else:
            (means,), (logvars,) = posteriors(placed, data, seed=seed, member=member, advance=told)
            parts = {"z": means, "logvar": logvars}
    asked = ["z", *["logvar"] * logvar, *["spread"] * spread]
    names = [f"{part}{latent}" for part in asked for latent in range(model.config.code_size)]
    table = pd.DataFrame(np.concatenate([parts[part] for part in asked], 1), columns=names)
    if len(data) > 1 and sample:
        table.attrs = _agreement(sample)
    if data.files:
        table.insert(0, "file", data.files)
    return table


def posteriors(
    models: Fleet | Sequence[Model],
    images: Any,
    rows: np.ndarray | None = None,
    *,
    seed: int = 0,
    member: int = 0,
    advance: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Means and log-variances of the codes of images, float32 `[M, n, d]` each.

    Models that can share a fleet encode together, on their device, some thousand images at a time.

    Args:
        models: Models with equally many latents.
        images: A data set, or images `[n, H, W, C]`, bytes or floats in [0, 1].
        rows: The numbers of the images to encode, in their order; by default all.
        seed: For a data set whose images are random given their factors, the draw to encode.
        member: Of ensembles, the number of the member that encodes.
        advance: Called after each batch with the number of images encoded, summed over models.
    """
    configs = [config for model in models for config in model.configs]
    count = len(images) if rows is None else len(rows)
    shape = (len(configs), count, configs[0].code_size)
    means, logvars = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for places, fleet in _fleets(models):
        for part, batch in _parts(fleet, images, rows, seed):
            # A `Model` has a method of the same name, without the model axis.
            means[places, part], logvars[places, part] = Fleet.encode(fleet, batch, member=member)
            if advance is not None:
                advance((part.stop - part.start) * len(fleet))
    return means, logvars


def _fleets(models: Fleet | Sequence[Model]) -> list[tuple[slice | list[int], Fleet]]:
    """Models that can encode together, and their places among all of them."""
    if isinstance(models, Fleet):
        return [(slice(None), models)]
    kinds = group_into_fleets(range(len(models)), lambda place: models[place].config)
    return [(places, join([models[place] for place in places])) for places in kinds]


def _parts(
    fleet: Fleet, images: Any, rows: np.ndarray | None, seed: int
) -> Iterator[tuple[slice, Any]]:
    """Some thousand images at a time, and their places among those asked for."""
    whole = isinstance(images, Dataset)
    if whole:
        check_shape(fleet.shape, images.shape, images.name)
        images = images.to(fleet.device)
    rows = np.arange(len(images)) if rows is None and whole else rows
    count = len(images) if rows is None else len(rows)
    for start in range(0, count, ROWS_AT_ONCE):
        part = slice(start, min(start + ROWS_AT_ONCE, count))
        chosen = part if rows is None else rows[part]
        yield part, images.inputs(chosen, seed) if whole else images[chosen]


def _together(
    model: Model,
    data: Dataset,
    seed: int,
    sample: list[Aligned],
    advance: Callable[[int], None],
) -> dict[str, np.ndarray]:
    """The mean code of all members, its log-variance and spread; and a sample of what each says.

    Args:
        model: An ensemble.
        data: The images.
        seed: See `posteriors`.
        sample: Posteriors of at most `COMPARED` images are added to it.
        advance: See `posteriors`.
    """
    compared = np.zeros(len(data), bool)
    compared[np.random.default_rng(0).permutation(len(data))[:COMPARED]] = True
    found = []
    for part, images in _parts(model, data, None, seed):
        aligned = aligned_posteriors(model, images)
        sample.append(aligned.only(compared[part]))
        found.append((aligned.mean, aligned.logvar, aligned.spread))
        advance(part.stop - part.start)
    columns = [np.concatenate(each).astype(np.float32) for each in zip(*found, strict=True)]
    return dict(zip(("z", "logvar", "spread"), columns, strict=True))


def check_member(model: Model, member: Any) -> None:
    """Refuse a member that a model does not have."""
    method, number = model.config.method, type(member) is int
    if member != MEAN and not number:
        raise UnweaveError(f"a member is its number or {MEAN!r}, but got {member!r}")
    if number and member in range(method.num_members):
        return
    if method.num_members == 1:
        raise UnweaveError(
            f"this model of {method.name} has no members to choose from; leave the member out, or "
            "train vae_ensemble"
        )
    if number:
        raise UnweaveError(
            f"this ensemble has members 0 to {method.num_members - 1}, but got {member}"
        )
    signed_permutations(model)  # refuses members without a map to the first


def _agreement(sample: Sequence[Aligned]) -> dict[str, dict[str, Any]]:
    """How far members agree on each latent, and that in a word."""
    means = np.concatenate([part.means for part in sample], 1)
    logvars = np.concatenate([part.logvars for part in sample], 1)
    whole = Aligned(means, logvars, sample[0].ways)
    names = [f"z{latent}" for latent in range(whole.means.shape[2])]
    return {
        "agreement": dict(zip(names, whole.agreement.tolist(), strict=True)),
        "members": dict(zip(names, whole.verdicts, strict=True)),
    }


def images_for(model: Model, source: Any, **options: Any) -> Dataset:
    """The images of any source of `uw.data.load`, your own as the model needs them."""
    named = isinstance(source, str) and is_named(spelled(source))
    if named:
        return load_data(source, **options)
    height, width, channels = model.shape
    if height != width or height not in SIZES or channels not in (1, 3):
        raise DataError(
            f"this model takes arrays of {size_text(model.shape)}, which files of images are not "
            "resized to; encode arrays with uw.load(…).encode or uw.Unweaver.load(…).transform"
        )
    return load_data(source, size=height, channels=channels, fewest=1, **options)


def check_trained(model: Model) -> None:
    """An error where a model diverged, a warning where it never was trained."""
    if model.diverged_at[0] >= 0:
        raise UnweaveError(
            f"this model diverged at step {model.diverged_at[0]:,} and its codes mean nothing; "
            "take another"
        )
    if model.config.steps == 0:
        logging.getLogger("unweave").warning(
            "this model was trained for 0 steps, so its codes are those of random weights"
        )
