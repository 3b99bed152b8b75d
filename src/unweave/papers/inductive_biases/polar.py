"""How a model encodes two factors: in one latent each, or as angle and radius of two latents."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from unweave.papers.recipe import RecipeError

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["FACTORS", "encoding_of", "in_polar", "picture_of", "separated"]

FACTORS = {
    "dsprites": ("orientation", "scale"),
    "rooms3d": ("wall_hue", "orientation"),
    "shapes3d": ("wall_hue", "orientation"),
}
"""A periodic factor and another factor of each data set; the paper shows those of Shapes3D."""
MIDDLE = 0.5


def encoding_of(model: "Model", data: "Dataset", base: str) -> dict[str, Any]:
    """Measure how two latents encode two factors, with all other factors at their midpoint.

    Returns:
        `latents`, the two that vary most; `separated`, from `separated`; `angle` and `radius`,
        from `in_polar`.
    """
    periodic, other = FACTORS[base]
    grid = data.grid
    if grid is None or periodic not in grid.names:
        raise RecipeError(
            f"{data.name} has no factor {periodic}; use {base}", subject=periodic, value=data.name
        )
    sizes = dict(zip(grid.names, grid.sizes, strict=True))
    turn, along = np.indices((sizes[periodic], sizes[other])).reshape(2, -1)
    factors = np.tile([int(MIDDLE * (size - 1)) for size in grid.sizes], (len(turn), 1))
    factors[:, grid.names.index(periodic)] = turn
    factors[:, grid.names.index(other)] = along
    codes = model.encode(data.images(grid.index(factors)))[0]
    first, second = np.sort(np.argsort(codes.var(0))[-2:])
    pair = codes[:, [first, second]]
    angle, radius = in_polar(pair, turn / sizes[periodic], along)
    return {
        "latents": [int(first), int(second)],
        "separated": separated(pair, turn, along),
        "angle": angle,
        "radius": radius,
    }


def separated(codes: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    """How well two factors have one latent each: mean |rank correlation| of the better pairing.

    Example:
        >>> codes = np.array([[0.0, 5], [1, 4], [2, 9], [3, 2]])
        >>> separated(codes, np.arange(4), np.array([2, 1, 3, 0]))
        1.0
    """
    found = np.array([[abs(spearmanr(c, f).statistic) for f in (one, other)] for c in codes.T])
    found = np.nan_to_num(found)
    straight, crossed = found[0, 0] + found[1, 1], found[0, 1] + found[1, 0]
    return float(max(straight, crossed) / 2)


def in_polar(codes: np.ndarray, turn: np.ndarray, along: np.ndarray) -> tuple[float, float]:
    """How well one factor is the angle of two latents around their mean, and another the radius.

    Returns:
        |E exp(i (angle ± 2π turn))|, the larger of both signs; and |rank correlation| of the
        radius and the second factor.

    Example:
        >>> turn, along = np.indices((8, 3)).reshape(2, -1)
        >>> at = 2 * np.pi * turn / 8
        >>> codes = (1 + along)[:, None] * np.stack([np.cos(at), np.sin(at)], 1)
        >>> [round(share, 1) for share in in_polar(codes, turn / 8, along)]
        [1.0, 1.0]
    """
    centred = codes - codes.mean(0)
    angle = np.arctan2(centred[:, 1], centred[:, 0])
    shares = [abs(np.exp(1j * (angle + sign * 2 * np.pi * turn)).mean()) for sign in (-1, 1)]
    radius = np.linalg.norm(centred, axis=1)
    return float(max(shares)), float(abs(np.nan_to_num(spearmanr(radius, along).statistic)))


def picture_of(model: "Model", data: "Dataset", found: dict[str, Any]) -> bytes:
    """Traversals of the two latents, as the bytes of a PNG."""
    from unweave.plots import pairwise

    file = io.BytesIO()
    pairwise(model, data, latents=tuple(found["latents"]), columns=7).save(file, "PNG")
    return file.getvalue()
