"""What a fit tries by default: methods, strengths and seeds, and settings chosen from the data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from unweave.data.dataset import Dataset
from unweave.fleet.train import all_runs
from unweave.io.arrays import on_host
from unweave.methods import BetaTCVAE, BetaVAE, FactorVAE, Method
from unweave.models.config import Config
from unweave.models.images import sample_rows
from unweave.nets.sizes import MAX_SIDE, MIN_SIDE
from unweave.text import canonical_name, size_text

__all__ = [
    "FIXED_PRECISION",
    "PORTFOLIOS",
    "RATE",
    "ROUNDS",
    "SEEDS",
    "Portfolio",
    "fewest_finalists",
    "likelihood_for",
    "reduced_message",
    "runs_of",
    "smaller_size",
    "with_defaults",
]

NARROW = 256
"""Width of FactorVAE's discriminator: on a CPU, a step takes less than half of the time that it
takes with the published width of 1,000."""
BERNOULLI = "bernoulli"


@dataclass(frozen=True)
class Portfolio:
    """What a fit tries by default on a type of device.

    Args:
        architectures: Architectures, each with all methods.
        binary: Methods for black and white images.
        others: Methods for all other images, whose likelihood has a learned variance. It weighs
            reconstructions more, so that smaller strengths suffice.
        seeds: Random seeds for each of them.
    """

    architectures: tuple[str, ...]
    binary: tuple[Method, ...]
    others: tuple[Method, ...]
    seeds: int


_FOR_CPU = FactorVAE(gamma=[10.0, 20.0], width=NARROW)
PORTFOLIOS = {
    "cpu": Portfolio(("broadcast",), (_FOR_CPU,), (_FOR_CPU,), seeds=3),
    "cuda": Portfolio(
        ("broadcast", "conv"),
        (BetaTCVAE(beta=[4.0, 6.0]), FactorVAE(gamma=[10.0, 20.0], width=NARROW)),
        (BetaTCVAE(beta=2.0), FactorVAE(gamma=[5.0, 10.0, 20.0], width=NARROW)),
        seeds=4,
    ),
}
"""What a fit tries by default, by type of device: 6 models on a CPU, 32 on a GPU."""
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


def runs_of(
    method: Any,
    data: Dataset,
    seeds: int | Iterable[int] | None,
    steps: int,
    device: torch.device,
    settings: Mapping[str, Any],
) -> list[Config]:
    """Return what to train: the given method with these seeds, or the defaults for this device.

    Args:
        method: Method or methods; None for the portfolio of the device.
        data: Images.
        seeds: Random seeds; None for the default number.
        steps: Number of training steps.
        device: Device for training.
        settings: Settings of the models that were given; the others have defaults.
    """
    chosen = with_defaults(settings, data, device)
    portfolio = PORTFOLIOS[device.type]
    default_seeds = SEEDS[device.type]
    architectures: tuple[Any, ...] = (chosen.pop("architecture", None),)
    if method is None:
        binary = chosen["likelihood"] == BERNOULLI
        method = list(portfolio.binary if binary else portfolio.others)
        default_seeds = portfolio.seeds
        if "architecture" not in settings and architectures[0] is not None:
            architectures = portfolio.architectures
    elif isinstance(method, str) and canonical_name(method) == BetaVAE.name:
        method = BetaVAE(beta=list(STRENGTHS[device.type]))
    if seeds is None:
        seeds = default_seeds
    elif not isinstance(seeds, int | np.integer):
        seeds = list(seeds)
    return [
        run
        for architecture in architectures
        for run in all_runs(
            method,
            data,
            seeds,
            steps,
            **chosen,
            **({} if architecture is None else {"architecture": architecture}),
        )
    ]


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
    return BERNOULLI if np.isin(images, (0, 255)).all() else "learned_gaussian"


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
