"""Latent traversals: what happens to an image when one latent changes and the others stay."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unweave.errors import UnweaveError
from unweave.plots.drawn_codes import Seen, look
from unweave.plots.sheet import Row, Sheet, lay_out, pictures_of
from unweave.plots.traversal_range import Prior, label_of, range_in_words, start_at, stops

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["Inactive", "check_inactive", "chosen_latents", "traversals"]

Inactive = Literal["grey", "hide"]


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
) -> Sheet:
    """Draw one row per latent: what is decoded while that latent changes and the others stay.

    Rows are sorted by how much the latent says about images: its mean KL divergence, in nats, at
    the end of the row. Latents that say nothing (at most 0.01 nats) are greyed. Where the factors
    of the data are known, a latent is labelled with the one that it follows, if there is one (see
    `uw.show.followed_factors`). The first row has the image and what the model makes of it.

    Args:
        model: A trained model.
        data: What it was trained on.
        index: The image to start from; by default one in the middle of the grid, or the first.
        columns: Images per row.
        reach: How far a latent goes, in standard deviations of the prior.
        image: Start from an image of your own: `[H, W, C]`, bytes or floats in [0, 1].
        prior: Start from the `"mean"` of the prior or from a `"draw"` of it.
        seed: Of that draw, and of images that are random given their factors.
        quantiles: Let each latent go from one quantile of its codes to another, such as
            `(0.01, 0.99)`, in place of `reach`.
        inactive: `"grey"` latents that say nothing, or `"hide"` them.

    Returns:
        A picture, to be saved with `.save("latents.png")`.

    Notes:
        A plain autoencoder has no prior: its latents are sorted by the spread of their codes
        and go from the 1 % to the 99 % quantile.
    """
    start = start_at(model, data, index, image, prior, seed)
    seen = look(model, data)
    values = stops(seen, columns, reach, quantiles)
    first = Row(start.pictures, *start.name, end=seen.measure)
    rows = [first] + [
        _row(model, seen, start.code, latent, values[latent])
        for latent in chosen_latents(seen, inactive)
    ]
    return lay_out(rows, range_in_words(seen, reach, quantiles))


def check_inactive(inactive: str) -> None:
    """Refuse anything that is neither `"grey"` nor `"hide"`."""
    if inactive not in ("grey", "hide"):
        raise UnweaveError(f"inactive latents are 'grey' or we 'hide' them, but got {inactive!r}")


def chosen_latents(seen: Seen, inactive: Inactive) -> list[int]:
    """The latents to draw, those that say most first."""
    check_inactive(inactive)
    if inactive == "grey":
        return [int(j) for j in seen.order]
    if not seen.active.any():
        raise UnweaveError(
            "no latent of this model is active, so none is left to draw; draw them in grey, or "
            "train it for longer or with a smaller strength"
        )
    return [int(j) for j in seen.order if seen.active[j]]


def _row(model: "Model", seen: Seen, code: np.ndarray, latent: int, values: np.ndarray) -> Row:
    codes = np.repeat(code[None], len(values), axis=0)
    codes[:, latent] = values
    pictures = pictures_of(model.decode(codes))
    if not seen.active[latent]:
        return Row(pictures, seen.name(latent), "unused", faint=True)
    return Row(pictures, *label_of(seen, latent), end=f"{seen.amounts[latent]:.2f}")
