"""Codes of any images by a trained model, as a table."""

import logging
from collections.abc import Sequence
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
from unweave.models.finding import one_model
from unweave.models.members import Aligned, aligned_posteriors, signed_permutations
from unweave.models.model import Model
from unweave.models.shapes import check_shape
from unweave.nets.device import chosen_device
from unweave.progress import lines
from unweave.text import size_text, spelled

__all__ = ["MEAN", "Member", "check_member", "encode", "images_for"]

MEAN: Literal["mean"] = "mean"
Member = int | Literal["mean"]
"""A member of an ensemble, or the mean of all of them."""

ROWS_AT_ONCE = 8_192
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
    near, placed = data.to(place), model.to(place)
    asked = ["z", *["logvar"] * logvar, *["spread"] * spread]
    names = [f"{part}{latent}" for part in asked for latent in range(model.config.code_size)]
    codes = np.empty((len(data), len(names)), np.float32)
    compared = np.zeros(len(data), bool)
    compared[np.random.default_rng(0).permutation(len(data))[:COMPARED]] = True
    sample: list[Aligned] = []
    with lines({"encoding images": len(data)}, shown=progress) as advance:
        for start in range(0, len(data), ROWS_AT_ONCE):
            rows = np.arange(start, min(start + ROWS_AT_ONCE, len(data)))
            images = near.inputs(rows, seed)
            if member == MEAN:
                aligned = aligned_posteriors(placed, images)
                sample.append(aligned.only(compared[rows]))
                parts = {"z": aligned.mean, "logvar": aligned.logvar, "spread": aligned.spread}
            else:
                mean, logvars = placed.encode(images, member=member)
                parts = {"z": mean, "logvar": logvars}
            codes[rows] = np.concatenate([parts[part] for part in asked], 1)
            advance("encoding images", len(rows))
    table = pd.DataFrame(codes, columns=names)
    if len(data) > 1 and sample:
        table.attrs = _agreement(sample)
    if data.files:
        table.insert(0, "file", data.files)
    return table


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
