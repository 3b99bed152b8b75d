"""What a fit tries by default: methods, strengths and seeds, and settings chosen from the data."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from unweave.data.dataset import Dataset
from unweave.io.arrays import on_host
from unweave.methods import AE, BetaTCVAE, BetaVAE, FactorVAE, Method
from unweave.models.images import sample_rows
from unweave.nets.sizes import MAX_SIDE, MIN_SIDE
from unweave.text import canonical_name, size_text

__all__ = [
    "FIXED_PRECISION",
    "PORTFOLIO",
    "RATE",
    "ROUNDS",
    "SEEDS",
    "fewest_finalists",
    "likelihood_for",
    "methods_and_seeds",
    "reduced_message",
    "smaller_size",
    "with_defaults",
]

NARROW = 256
"""Width of FactorVAE's discriminator: on a CPU, a step takes less than half of the time that it
takes with the published width of 1,000."""
PORTFOLIO: dict[str, list[Method]] = {
    "cpu": [FactorVAE(gamma=[10.0, 20.0, 40.0], width=NARROW)],
    "cuda": [
        BetaTCVAE(beta=[2.0, 4.0, 6.0, 8.0]),
        FactorVAE(gamma=[10.0, 20.0, 40.0], width=NARROW),
        BetaVAE(beta=[2.0, 4.0]),
        AE(),
    ],
}
"""Methods and strengths tried by default, by type of device."""
PORTFOLIO_SEEDS = {"cpu": 2, "cuda": 5}
"""Random seeds for each of them: 6 models on a CPU, 50 on a GPU."""
STRENGTHS = {"cpu": (1.0, 4.0), "cuda": (1.0, 2.0, 4.0, 8.0, 16.0)}
"""Strengths of β-VAEs that are asked for by name."""
SEEDS = {"cpu": 4, "cuda": 10}
"""Random seeds for each strength of a method that is asked for."""
RATE = 1e-3
"""Default learning rate: ten times that of the studies, which train 100 times as long."""
BATCH = {"cpu": 32, "cuda": 64}
"""Default batch size: on a CPU, twice as many small steps learn more in the same time."""
FIXED_PRECISION = {"cpu": "float32", "cuda": "bf16"}
"""Precision without a measurement: that of `Unweaver`, dense networks and version 0.1."""
ROUNDS = 3
"""Rounds of a default fit; after each but the last, half of the models stop."""
SAMPLE = 100
"""Number of images from which the likelihood is chosen."""
SMALL_SIDE = 32
"""Side of images that are reduced for a CPU, on which four times as many steps fit then."""
MIN_KEPT = 0.9
"""Share of the variance of the pixels that reduced images must keep."""
FINALISTS = {"cpu": 2, "cuda": 12}
"""Smallest number of models in a round: fewer would leave processors idle."""


def methods_and_seeds(
    method: Any, seeds: int | Iterable[int] | None, device: torch.device
) -> tuple[Any, int | Iterable[int]]:
    """Return what to train: the given method and seeds, or the defaults for this device."""
    if method is None:
        return PORTFOLIO[device.type], PORTFOLIO_SEEDS[device.type] if seeds is None else seeds
    if isinstance(method, str) and canonical_name(method) == BetaVAE.name:
        method = BetaVAE(beta=list(STRENGTHS[device.type]))
    return method, SEEDS[device.type] if seeds is None else seeds


def fewest_finalists(device: torch.device) -> int:
    """Return the smallest number of models in a round."""
    return FINALISTS[device.type]


def likelihood_for(data: Dataset) -> str:
    """Return the likelihood for images: Bernoulli if every pixel is black or white.

    All others have a Gaussian likelihood with learned variance: in a Bernoulli likelihood, small
    differences between greys and colours count little.

    Example:
        >>> import unweave as uw
        >>> likelihood_for(uw.data.load("dsprites")), likelihood_for(uw.data.load("rooms3d"))
        ('bernoulli', 'learned_gaussian')
    """
    images = on_host(data.images(sample_rows(data, SAMPLE)))
    return "bernoulli" if np.isin(images, (0, 255)).all() else "learned_gaussian"


def with_defaults(
    settings: Mapping[str, Any], data: Dataset, device: torch.device
) -> dict[str, Any]:
    """Return settings of the models, with defaults chosen from the data and the device.

    Images of 16 to 256 pixels get a decoder in which objects that move are simple to represent.
    """
    convolutional = min(data.shape[:2]) >= MIN_SIDE and max(data.shape[:2]) <= MAX_SIDE
    return {
        **({} if "optimiser" in settings else {"learning_rate": RATE}),
        **({} if "likelihood" in settings else {"likelihood": likelihood_for(data)}),
        **({"architecture": "broadcast"} if convolutional else {}),
        "init": "he",
        "batch": BATCH[device.type],
        **settings,
    }


def smaller_size(data: Dataset, device: torch.device) -> int | None:
    """Return the side to which images should be reduced, or None if they should stay as they are.

    On a CPU, square images of more than 32 pixels are reduced if this keeps 90 % of the variance
    of the pixels: what matters is then large enough, and many more training steps fit.
    """
    height, width, _ = data.shape
    if device.type != "cpu" or height != width or height <= SMALL_SIDE:
        return None
    images = on_host(data.images(sample_rows(data, SAMPLE)))
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float()
    small = F.interpolate(pixels, (SMALL_SIDE, SMALL_SIDE), mode="area")
    again = F.interpolate(small, (height, width), mode="bilinear")
    lost = (pixels - again).square().mean() / pixels.var(0, correction=0).mean().clamp_min(1e-9)
    return SMALL_SIDE if lost <= 1 - MIN_KEPT else None


def reduced_message(data: Dataset, size: int, option: str) -> str:
    """Return a sentence about images that are reduced for a CPU, and how to avoid it."""
    before, after = size_text(data.shape[:2]), size_text((size, size))
    return (
        f"Images are reduced from {before} to {after} pixels, on which a CPU trains faster; "
        f"{option}{data.shape[0]} keeps their size"
    )
