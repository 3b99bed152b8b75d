"""What a fit tries by default: methods, strengths and seeds, and settings chosen from the data."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from unweave.data.dataset import Dataset
from unweave.io.arrays import on_host
from unweave.methods import AE, BetaTCVAE, BetaVAE, FactorVAE, Method
from unweave.models.images import sample_rows
from unweave.text import canonical_name

__all__ = [
    "FIXED_PRECISION",
    "PORTFOLIO",
    "RATE",
    "ROUNDS",
    "SEEDS",
    "fewest_finalists",
    "likelihood_for",
    "methods_and_seeds",
]

PORTFOLIO: dict[str, list[Method]] = {
    "cpu": [BetaTCVAE(beta=[2.0, 4.0, 8.0])],
    "cuda": [
        BetaTCVAE(beta=[2.0, 4.0, 6.0, 8.0]),
        FactorVAE(gamma=[10.0, 20.0, 40.0]),
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
FIXED_PRECISION = {"cpu": "float32", "cuda": "bf16"}
"""Precision without a measurement: that of `Unweaver`, dense networks and version 0.1."""
ROUNDS = 3
"""Rounds of a default fit; after each but the last, half of the models stop."""
SAMPLE = 100
"""Number of images from which the likelihood is chosen."""
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
