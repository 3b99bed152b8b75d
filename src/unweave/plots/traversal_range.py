"""Where a walk through latent space starts, and how far it goes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from PIL import Image

from unweave.errors import DataError, UnweaveError
from unweave.io.arguments import check_count
from unweave.io.arrays import on_host
from unweave.models.shapes import check_shape
from unweave.plots.drawn_codes import Seen, check_data, check_model, has_prior
from unweave.plots.sheet import MOST_COLUMNS, pictures_of

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = [
    "Prior",
    "Start",
    "draw_prior",
    "label_of",
    "middle",
    "range_in_words",
    "start_at",
    "stops",
]

Prior = Literal["mean", "draw"]
QUANTILES = (0.01, 0.99)
"""How far walks of a model without a prior go."""
FARTHEST = 1e6
LONGEST = 16
"""Letters of a label, so that long names of factors do not push pictures aside."""


@dataclass(frozen=True, eq=False)
class Start:
    """Where a walk starts.

    Args:
        code: `[d]`.
        pictures: The image, where there is one, and what the model makes of the code.
        name: What that is, in two lines.
    """

    code: np.ndarray
    pictures: list[Image.Image]
    name: tuple[str, str]


def start_at(
    model: "Model",
    data: "Dataset",
    index: int | None = None,
    image: Any = None,
    prior: Prior | None = None,
    seed: int = 0,
) -> Start:
    """The code of an image of the data, of an image of one's own, or of the prior.

    Args:
        model: A trained model.
        data: What it was trained on.
        index: Of an image; by default one in the middle of the grid, or the first.
        image: One's own instead: `[H, W, C]` or, where grey, `[H, W]`; bytes or floats in [0, 1].
        prior: `"mean"` or `"draw"` to start from the prior instead.
        seed: Of that draw, and of images that are random given their factors.
    """
    check_data(model, data)
    given = [what for what in (index, image, prior) if what is not None]
    if len(given) > 1:
        raise UnweaveError("a walk has one start: give an index, an image or a prior")
    if prior is not None:
        code = draw_prior(model, 1, seed)[0] if prior == "draw" else _prior_mean(model, prior)
        name = ("prior", "its mean" if prior == "mean" else f"seed {seed}")
        return Start(code, pictures_of(model.decode(code[None])), name)
    images = _image_of(data, index, seed) if image is None else _own_image(model, image)
    mean, _ = model.encode(images)
    shown = pictures_of(images) + pictures_of(model.decode(mean))
    return Start(mean[0], shown, ("image", "and decoded"))


def draw_prior(model: "Model", count: int, seed: int) -> np.ndarray:
    """Codes drawn from the prior, float32 `[count, d]`; fewer are the first of more."""
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
        raise UnweaveError(f"a walk starts at the prior's 'mean' or a 'draw', but got {prior!r}")
    return np.zeros(model.config.code_size, dtype=np.float32)


def _check_prior(model: "Model") -> None:
    check_model(model)
    if not has_prior(model):
        raise UnweaveError(f"{model.config.method.name} has no prior; start from images instead")


def _image_of(data: "Dataset", index: int | None, seed: int) -> np.ndarray:
    index = middle(data) if index is None else index
    if not 0 <= index < len(data):
        raise DataError(f"{data.name} has images 0 … {len(data) - 1:,}, but got index {index:,}")
    return on_host(data.images([index], seed))


def middle(data: "Dataset") -> int:
    """The image in the middle of the grid, or the first where there is none."""
    if data.grid is None:
        return int(data.support[0])
    index = int(np.ravel_multi_index([n // 2 for n in data.grid.sizes], data.grid.sizes))
    drawable = data.weights is None or data.weights[index] > 0
    return index if drawable else int(data.support[len(data.support) // 2])


def _own_image(model: "Model", image: Any) -> np.ndarray:
    """One image `[1, H, W, C]`, bytes, or floats in [0, 1]."""
    image = on_host(image)
    image = image[..., None] if image.ndim == 2 else image
    check_shape(model.shape, image.shape, "this array")
    if image.dtype == np.uint8:
        return image[None]
    if image.dtype.kind != "f" or not (np.isfinite(image) & (image >= 0) & (image <= 1)).all():
        raise DataError(
            f"an image is uint8 from 0 to 255 or floats from 0 to 1, but got {image.dtype} with "
            "others"
        )
    return image[None].astype(np.float32)


def stops(
    seen: Seen, count: int, reach: float, quantiles: tuple[float, float] | None
) -> np.ndarray:
    """The values that each latent takes on its walk, evenly spaced, `[d, count]`.

    Args:
        seen: Codes of the data.
        count: How many values.
        reach: How far a latent goes to both sides of 0, in standard deviations of the prior.
        quantiles: From one quantile of the codes to another instead.
    """
    check_count("the number of images in a walk", count, 2, MOST_COLUMNS)
    if quantiles is None and not seen.prior:
        quantiles = QUANTILES
    if quantiles is None:
        if not 0 < reach <= FARTHEST:
            raise UnweaveError(f"reach must be above 0 and at most {FARTHEST:g}, got {reach:g}")
        ends = np.tile([-reach, reach], (seen.means.shape[1], 1))
    else:
        low, high = quantiles
        if not 0 <= low < high <= 1:
            raise UnweaveError(
                f"quantiles are two numbers from 0 to 1, the lower first, but got {low:g} and "
                f"{high:g}"
            )
        ends = np.quantile(seen.means.astype(np.float64), [low, high], axis=0).T
    return np.linspace(ends[:, 0], ends[:, 1], count, axis=1)


def range_in_words(seen: Seen, reach: float, quantiles: tuple[float, float] | None) -> str:
    """What `stops` does, for below a picture."""
    if quantiles is None and seen.prior:
        return f"each latent from −{reach:g} to {reach:g}"
    low, high = quantiles or QUANTILES
    return f"each latent from its {100 * low:g} % to its {100 * high:g} % quantile"


def label_of(seen: Seen, latent: int) -> tuple[str, str]:
    """A latent's name, and what it follows where that is known.

    Example:
        >>> codes = np.random.default_rng(0).normal(size=(900, 1)).astype(np.float32)
        >>> label_of(Seen(codes, np.full((900, 1), -3.0), codes > 0, ["lit"]), 0)
        ('latent 0', '→ lit')
    """
    followed = seen.follows[latent]
    words = " + ".join(followed[:2]) + (" …" if len(followed) > 2 else "")
    words = words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
    return seen.name(latent), f"→ {words}" if words else ""
