"""Latent traversals: images decoded while one latent varies and the others stay fixed.

Also contains the helpers that choose the starting code, the range and the latents of a traversal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from PIL import Image

from unweave.errors import DataError, UnweaveError
from unweave.io.arguments import check_count
from unweave.io.arrays import on_host
from unweave.models.images import check_shape
from unweave.plots.drawn_codes import (
    LONGEST,
    DrawnCodes,
    check_data,
    check_model,
    draw_codes,
    has_prior,
)
from unweave.plots.sheet import MOST_COLUMNS, Row, Sheet, lay_out, pictures_of

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = [
    "Inactive",
    "Prior",
    "Start",
    "check_inactive",
    "chosen_latents",
    "describe_range",
    "draw_prior",
    "label_of",
    "middle_index",
    "start_at",
    "traversal_values",
    "traversals",
    "vary_latent",
]

Inactive = Literal["grey", "hide"]
Prior = Literal["mean", "draw"]
QUANTILES = (0.01, 0.99)
"""Default range of traversals for models without a prior, as quantiles of the codes."""
FARTHEST = 1e6


def traversals(
    model: "Model",
    data: "Dataset",
    index: int | None = None,
    columns: int = 9,
    reach: float = 2.5,
    *,
    image: Any = None,
    prior: Prior | None = None,
    seed: int = 0,
    quantiles: tuple[float, float] | None = None,
    inactive: Inactive = "grey",
    names: Mapping[int, str] | None = None,
) -> Sheet:
    """Plot one row per latent: decoded images while it varies and the others stay fixed.

    Rows are sorted by the mean KL divergence of the latent, shown in nats at the end of the row.
    Inactive latents (at most 0.01 nats) are greyed out. If the factors of the data are known, a
    latent is labelled with the factor that it follows (see `uw.show.followed_factors`). The first
    row shows the starting image and its reconstruction.

    Args:
        model: A trained model.
        data: Data set that the model was trained on.
        index: Index of the starting image (default: the middle of the grid, or the first image).
        columns: Images per row.
        reach: Largest absolute value of a latent, in standard deviations of the prior.
        image: Custom image to start from, `[H, W, C]`, bytes or floats in [0, 1].
        prior: Start from the `"mean"` of the prior or from a sample (`"draw"`).
        seed: Random seed for this sample and for images that are random given their factors.
        quantiles: Range of each latent as two quantiles of its codes, such as `(0.01, 0.99)`,
            instead of `reach`.
        inactive: Show inactive latents in `"grey"` or `"hide"` them.
        names: Names of latents, by number.

    Returns:
        An image; save it with `.save("latents.png")`.

    Notes:
        A plain autoencoder has no prior: its latents are sorted by the spread of their codes
        and vary from the 1 % to the 99 % quantile.
    """
    start = start_at(model, data, index, image, prior, seed)
    drawn = draw_codes(model, data, names=names)
    values = traversal_values(drawn, columns, reach, quantiles)
    first = Row(start.pictures, *start.name, end=drawn.measure)
    rows = [first] + [
        _row(model, drawn, start.code, latent, values[latent])
        for latent in chosen_latents(drawn, inactive)
    ]
    return lay_out(rows, describe_range(drawn, reach, quantiles))


def check_inactive(inactive: str) -> None:
    """Raise an error unless `inactive` is `"grey"` or `"hide"`."""
    if inactive not in ("grey", "hide"):
        raise UnweaveError.must("inactive", "be 'grey' or 'hide'", inactive)


def chosen_latents(drawn: DrawnCodes, inactive: Inactive) -> list[int]:
    """Return the latents to plot, most informative first."""
    check_inactive(inactive)
    if inactive == "grey":
        return [int(j) for j in drawn.order]
    if not drawn.active.any():
        raise UnweaveError(
            "no latent of this model is active; use inactive='grey' to plot them anyway, or train "
            "the model for longer or with a lower regularisation strength",
            subject="inactive",
            value=inactive,
        )
    return [int(j) for j in drawn.order if drawn.active[j]]


def _row(
    model: "Model", drawn: DrawnCodes, code: np.ndarray, latent: int, values: np.ndarray
) -> Row:
    pictures = pictures_of(model.decode(vary_latent(code, latent, values)))
    if not drawn.active[latent]:
        return Row(pictures, drawn.name(latent), "unused", faint=True)
    return Row(pictures, *label_of(drawn, latent), end=f"{drawn.amounts[latent]:.2f}")


def vary_latent(code: np.ndarray, latent: int, values: np.ndarray) -> np.ndarray:
    """Return copies `[n, d]` of a code `[d]` in which one latent has the values `[n]`."""
    codes = np.repeat(code[None], len(values), axis=0)
    codes[:, latent] = values
    return codes


@dataclass(frozen=True, eq=False)
class Start:
    """The start of a traversal."""

    code: np.ndarray  # code `[d]`
    pictures: list[Image.Image]  # the image, if there is one, and the decoded code
    name: tuple[str, str]  # label of these pictures, in two lines


def start_at(
    model: "Model",
    data: "Dataset",
    index: int | None = None,
    image: Any = None,
    prior: Prior | None = None,
    seed: int = 0,
) -> Start:
    """Return the start of a traversal: an image of the data, a custom image or the prior.

    The default is the image in the middle of the grid, or the first image. A custom image has the
    shape `[H, W, C]` or, if greyscale, `[H, W]`, and contains bytes or floats in [0, 1].
    """
    check_data(model, data)
    given = [what for what in (index, image, prior) if what is not None]
    if len(given) > 1:
        raise UnweaveError(
            f"set only one of index, image and prior, got {len(given)}",
            subject="start",
            value=len(given),
        )
    if prior is not None:
        code = draw_prior(model, 1, seed)[0] if prior == "draw" else _prior_mean(model, prior)
        name = ("prior", "its mean" if prior == "mean" else f"seed {seed}")
        return Start(code, pictures_of(model.decode(code[None])), name)
    if image is None:
        index = middle_index(data) if index is None else index
        images, factors = _image_of(data, index, seed), model.factors_of(data, [index])
    else:
        images, factors = _own_image(model, image), {}
    mean, _ = model.encode(images, factors=factors)
    shown = pictures_of(images) + pictures_of(model.decode(mean))
    return Start(mean[0], shown, ("image", "and decoded"))


def draw_prior(model: "Model", count: int, seed: int) -> np.ndarray:
    """Sample codes from the prior, float32 `[count, d]`; a larger count extends the sequence."""
    from unweave.methods.mixins import CustomPrior
    from unweave.random import Stream

    _check_prior(model)
    method, latents, stream = model.config.method, model.config.code_size, Stream(seed, "samples")
    if isinstance(method, CustomPrior):
        return method.prior_samples(stream, count, latents, model.named_parameters()).numpy()
    return stream.normal(count, latents).numpy()


def _prior_mean(model: "Model", prior: str) -> np.ndarray:
    _check_prior(model)
    if prior != "mean":
        raise UnweaveError.must("prior", "be 'mean' or 'draw'", prior)
    return np.zeros(model.config.code_size, dtype=np.float32)


def _check_prior(model: "Model") -> None:
    check_model(model)
    if not has_prior(model):
        raise UnweaveError(
            f"{model.config.method.name} models have no prior; start from an image instead",
            subject="prior",
            value=model.config.method.name,
        )


def _image_of(data: "Dataset", index: int, seed: int) -> np.ndarray:
    if not 0 <= index < len(data):
        raise DataError.must("index", f"be from 0 to {len(data) - 1:,} for {data.name}", index)
    return on_host(data.images([index], seed))


def middle_index(data: "Dataset") -> int:
    """Return the index of the image in the middle of the grid, or of the first image."""
    if data.grid is None:
        return int(data.support[0])
    index = int(np.ravel_multi_index([n // 2 for n in data.grid.sizes], data.grid.sizes))
    drawable = data.weights is None or data.weights[index] > 0
    return index if drawable else int(data.support[len(data.support) // 2])


def _own_image(model: "Model", image: Any) -> np.ndarray:
    """Check a custom image and return it as `[1, H, W, C]`, bytes or floats in [0, 1]."""
    image = on_host(image)
    image = image[..., None] if image.ndim == 2 else image
    check_shape(model.shape, image.shape, "this array")
    if image.dtype == np.uint8:
        return image[None]
    if image.dtype.kind != "f" or not (np.isfinite(image) & (image >= 0) & (image <= 1)).all():
        raise DataError(
            f"image must be uint8, or floats from 0 to 1, got other values of type {image.dtype}",
            subject="image",
            value=image.dtype,
        )
    return image[None].astype(np.float32)


def traversal_values(
    drawn: DrawnCodes, count: int, reach: float, quantiles: tuple[float, float] | None
) -> np.ndarray:
    """Return the evenly spaced values of each latent in its traversal, `[d, count]`.

    The range is `-reach … reach`, in standard deviations of the prior, or between two quantiles
    of the codes.
    """
    check_count("the number of images per traversal", count, 2, MOST_COLUMNS)
    if quantiles is None and not drawn.prior:
        quantiles = QUANTILES
    if quantiles is None:
        if not 0 < reach <= FARTHEST:
            raise UnweaveError.must("reach", f"be above 0 and at most {FARTHEST:g}", reach)
        ends = np.tile([-reach, reach], (drawn.means.shape[1], 1))
    else:
        low, high = quantiles
        if not 0 <= low < high <= 1:
            raise UnweaveError.must(
                "quantiles", "be two increasing numbers from 0 to 1", quantiles
            )
        ends = np.quantile(drawn.means.astype(np.float64), [low, high], axis=0).T
    return np.linspace(ends[:, 0], ends[:, 1], count, axis=1)


def describe_range(drawn: DrawnCodes, reach: float, quantiles: tuple[float, float] | None) -> str:
    """Describe the range of a traversal, as the caption of a picture."""
    if quantiles is None and drawn.prior:
        return f"each latent from −{reach:g} to {reach:g}"
    low, high = quantiles or QUANTILES
    return f"each latent from its {100 * low:g} % to its {100 * high:g} % quantile"


def label_of(drawn: DrawnCodes, latent: int) -> tuple[str, str]:
    """Return a latent's name and the factors that it follows, if known.

    Example:
        >>> codes = np.random.default_rng(0).normal(size=(900, 1)).astype(np.float32)
        >>> label_of(DrawnCodes(codes, np.full((900, 1), -3.0), codes > 0, ["lit"]), 0)
        ('latent 0', '→ lit')
    """
    followed, own = drawn.follows[latent], drawn.name(latent)
    if [own.rpartition(" (z")[0]] == list(followed):  # the latent is named after this factor
        return own, ""
    names = " + ".join(followed[:2]) + (" …" if len(followed) > 2 else "")
    names = names if len(names) <= LONGEST else names[: LONGEST - 1] + "…"
    return own, f"→ {names}" if names else ""
