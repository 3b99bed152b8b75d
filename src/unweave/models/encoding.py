"""Encoding of images with trained models, as arrays or as a table.

Shapes: M models, n images, d latents.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from unweave.data import load as load_data
from unweave.data.catalog import is_named
from unweave.data.custom import reads_pictures
from unweave.data.dataset import Dataset
from unweave.data.origin import preprocessing
from unweave.data.pictures import FULL_BITS
from unweave.data.streaming import Streamed
from unweave.errors import DataError, UnweaveError
from unweave.io.arguments import check_seed
from unweave.methods.mixins import check_representation
from unweave.models.config import group_into_fleets
from unweave.models.finding import one_run
from unweave.models.images import check_shape
from unweave.models.members import Aligned, aligned_posteriors, signed_permutations
from unweave.models.model import Fleet, Model, join
from unweave.models.names import column_name
from unweave.nets.device import chosen_device
from unweave.nets.sizes import MAX_SIDE, MIN_SIDE
from unweave.progress import lines
from unweave.text import canonical_name, size_text

__all__ = ["MEAN", "Member", "check_member", "encode", "images_for", "posteriors"]

MEAN: Literal["mean"] = "mean"
Member = int | Literal["mean"]
"""A member of an ensemble, or the mean of all of them."""

ENCODING = "encoding images"
ROWS_PER_BATCH = 32_768
BYTES_PER_BATCH = 2**29
"""Largest batch of images that are read from disk."""
COMPARED = 10_000
"""Largest number of images on which the codes of members are compared."""


def encode(
    model: Model | str | Path,
    source: Any,
    *,
    member: Member = 0,
    representation: str = "value",
    logvar: bool = False,
    spread: bool = False,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool = True,
    names: Mapping[int, str] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Encode images into a table with one row per image.

    Args:
        model: A model, its folder, or a folder with a model in `best`.
        source: A data set, or any source that `uw.data.load` accepts; custom images are resized
            and converted to the channels of the model.
        member: For ensembles, the index of the member that encodes (default 0), or `"mean"` for
            the mean over members, whose latents are aligned with those of the first.
        representation: For methods with quantised latents, such as QLAE: `"value"` (default, the
            input of the decoder), `"index"` or `"continuous"` (before quantisation).
        logvar: Whether to add the log-variances of the codes; with `"mean"`, log of the mean σ².
        spread: Whether to add the standard deviation of codes over members; needs `"mean"`.
        seed: Random seed of the images, for data sets whose images are random given the factors.
        device: Device to run on (default: a GPU if available).
        progress: Whether to show a progress bar.
        names: Names of latents, which become part of the column headings (default: the names
            recorded with a saved model, none for a model in memory).
        options: Options of `uw.data.load`.

    Returns:
        A table with the column `file`, if images come from files, the means `z0`, `z1` …, then
        `logvar0`, `logvar1` …, then `spread0`, `spread1` …. The headings of
        latents with names end in these: `z0_size`. With `"mean"` and at least two images,
        `table.attrs["agreement"]` has the mean correlation between members for each latent, and
        `table.attrs["members"]` the verdict `"agree"`, `"disagree"` or `"unused"`.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> fleet = uw.train(uw.methods.VAE(), data, steps=2, batch=8, latents=3, progress=False)
        >>> table = encode(fleet[0], data, logvar=True)
        >>> table.shape, table.columns.tolist()
        ((1024, 6), ['z0', 'z1', 'z2', 'logvar0', 'logvar1', 'logvar2'])
    """
    if not isinstance(model, Model):
        run = one_run(model)
        model, names = run.model, run.names if names is None else names
    check_trained(model)
    check_seed(seed)
    place = chosen_device(device)
    data = source if isinstance(source, Dataset) else images_for(model, source, **options)
    check_shape(model.shape, data.shape, data.name)
    _warn_of_scale(model, data)
    check_member(model, member)
    check_representation(model.config.method, representation)
    if spread and member != MEAN:
        raise UnweaveError(
            f"spread needs the mean of all members; use member={MEAN!r}", subject="spread"
        )
    placed = model.to(place)
    attributes: dict[str, Any] = {}
    with lines({ENCODING: len(data)}, shown=progress) as advance:
        step = partial(advance, ENCODING)
        if member == MEAN:
            parts, attributes = _ensemble_mean(placed, data, seed, step)
        else:
            (means,), (logvars,) = posteriors(
                placed,
                data,
                seed=seed,
                member=member,
                representation=representation,
                advance=step,
            )
            parts = {"z": means, "logvar": logvars}
    chosen = ["z", *["logvar"] * logvar, *["spread"] * spread]
    columns = [
        column_name(part, latent, names or {})
        for part in chosen
        for latent in range(model.config.code_size)
    ]
    table = pd.DataFrame(np.concatenate([parts[part] for part in chosen], 1), columns=columns)
    if len(data) > 1:
        table.attrs = attributes
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
    representation: str = "value",
    advance: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and log-variances of the codes of images, float32 `[M, n, d]` each.

    Models that can share a fleet encode together, on their device, in batches.

    Args:
        models: Models with the same number of latents.
        images: A data set, or images `[n, H, W, C]`, uint8 or floats in [0, 1].
        rows: Indices of the images to encode, in this order (default: all).
        seed: Random seed of the images, for data sets whose images are random given the factors.
        member: For ensembles, the index of the member that encodes (default 0).
        representation: Representation of quantised codes; see `Fleet.encode`.
        advance: Callback for the number of images encoded by each batch, summed over models.
    """
    configs = [config for model in models for config in model.configs]
    count = len(images) if rows is None else len(rows)
    shape = (len(configs), count, configs[0].code_size)
    means, logvars = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for places, fleet in _fleets(models):
        known = fleet.factors_of(images, rows) if isinstance(images, Dataset) else {}
        for part, batch in _parts(fleet, images, rows, seed):
            own = {name: values[part] for name, values in known.items()}
            # A `Model` has a method of the same name, without the model axis.
            means[places, part], logvars[places, part] = Fleet.encode(
                fleet, batch, member=member, representation=representation, factors=own
            )
            if advance is not None:
                advance((part.stop - part.start) * len(fleet))
    return means, logvars


def _fleets(models: Fleet | Sequence[Model]) -> list[tuple[slice | list[int], Fleet]]:
    """Group models that can encode together, with their indices."""
    if isinstance(models, Fleet):
        return [(slice(None), models)]
    kinds = group_into_fleets(range(len(models)), lambda place: models[place].config)
    return [(places, join([models[place] for place in places])) for places in kinds]


def _parts(
    fleet: Fleet, images: Any, rows: np.ndarray | None, seed: int
) -> Iterator[tuple[slice, Any]]:
    """Yield batches of images with their positions among the requested rows."""
    whole = isinstance(images, Dataset)
    if whole:
        check_shape(fleet.shape, images.shape, images.name)
        images = images.to(fleet.device)
    rows = np.arange(len(images)) if rows is None and whole else rows
    count = len(images) if rows is None else len(rows)
    size = ROWS_PER_BATCH
    if whole and isinstance(images.store, Streamed):
        size = min(size, max(1, BYTES_PER_BATCH // math.prod(images.shape)))
    for start in range(0, count, size):
        part = slice(start, min(start + size, count))
        chosen = part if rows is None else rows[part]
        yield part, images.inputs(chosen, seed) if whole else images[chosen]


def _ensemble_mean(
    model: Model, data: Dataset, seed: int, advance: Callable[[int], None]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the mean code of all members, its log-variance and spread, and their agreement."""
    compared = np.zeros(len(data), bool)
    compared[np.random.default_rng(0).permutation(len(data))[:COMPARED]] = True
    found, sample = [], []
    for part, images in _parts(model, data, None, seed):
        aligned = aligned_posteriors(model, images)
        sample.append(aligned.only(compared[part]))
        found.append((aligned.mean, aligned.logvar, aligned.spread))
        advance(part.stop - part.start)
    columns = [np.concatenate(each).astype(np.float32) for each in zip(*found, strict=True)]
    means = np.concatenate([part.means for part in sample], 1)
    whole = Aligned(
        means, np.concatenate([part.logvars for part in sample], 1), aligned.permutations
    )
    names = [f"z{latent}" for latent in range(model.config.code_size)]
    agreement = {
        "agreement": dict(zip(names, whole.agreement.tolist(), strict=True)),
        "members": dict(zip(names, whole.verdicts, strict=True)),
    }
    return dict(zip(("z", "logvar", "spread"), columns, strict=True)), agreement


def check_member(model: Model, member: Any) -> None:
    """Check that a model has a member."""
    method, number = model.config.method, type(member) is int
    if member != MEAN and not number:
        raise UnweaveError(
            f"member must be an integer or {MEAN!r}, got {member!r}",
            subject="member",
            value=member,
        )
    if number and member in range(method.num_members):
        return
    if method.num_members == 1:
        raise UnweaveError(
            f"{method.name} models have no members; omit member, or train vae_ensemble",
            subject="members",
        )
    if number:
        raise UnweaveError(
            f"member must be between 0 and {method.num_members - 1}, got {member}",
            subject="member",
            value=member,
        )
    signed_permutations(model)  # raises an error if a member has no map to the first


def images_for(model: Model, source: Any, **options: Any) -> Dataset:
    """Load images from any source of `uw.data.load`; custom images are prepared for the model.

    They get the size, channels, scale of grey values and framing of the training data; other
    numbers of channels than 1 and 3 must be those of the images.
    """
    named = isinstance(source, str) and is_named(canonical_name(source))
    if named:
        return load_data(source, **options)
    height, width, channels = model.shape
    if height != width or not MIN_SIDE <= height <= MAX_SIDE:
        raise DataError(
            f"image files cannot be resized to {size_text(model.shape)}, the input of this model; "
            "encode arrays with uw.load(…).encode or uw.Unweaver.load(…).transform",
            subject="shape",
        )
    as_trained = preprocessing(model.config.data)
    if "bits" not in as_trained and reads_pictures(source):
        as_trained["bits"] = FULL_BITS
    if channels in (1, 3):
        as_trained["channels"] = channels
    options = {**as_trained, **options}
    return load_data(source, size=height, min_images=1, **options)


def _warn_of_scale(model: Model, data: Dataset) -> None:
    """Warn if grey values of more than 8 bits were scaled otherwise than the training images."""
    trained = preprocessing(model.config.data).get("bits")
    if None not in (trained, data.bits) and trained != data.bits:
        logging.getLogger("unweave").warning(
            "%s was scaled from %s bits, but the training images from %s; load it with bits=%s",
            data.name,
            data.bits,
            trained,
            trained,
        )


def check_trained(model: Model) -> None:
    """Raise an error if a model diverged; warn if it was trained for 0 steps."""
    if model.diverged_at[0] >= 0:
        raise UnweaveError(
            f"this model diverged at step {model.diverged_at[0]:,}, so its codes are meaningless; "
            "use another model",
            subject="diverged_at",
        )
    if model.config.steps == 0:
        logging.getLogger("unweave").warning(
            "this model was trained for 0 steps, so its codes come from random weights"
        )
