"""What a fit tries by default: methods, strengths and seeds, and settings chosen from the data."""

import numpy as np
import torch

from unweave.data.dataset import Dataset
from unweave.io.arrays import on_host
from unweave.methods import AE, BetaTCVAE, BetaVAE, FactorVAE, Method
from unweave.models.images import sample_rows

__all__ = ["PORTFOLIO", "ROUNDS", "SEEDS", "fewest_finalists", "likelihood_for"]

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
SEEDS = {"cpu": 2, "cuda": 5}
"""Random seeds for each of them: 6 models on a CPU, 50 on a GPU."""
ROUNDS = 3
"""Rounds of a default fit; after each but the last, half of the models stop."""
SAMPLE = 100
"""Number of images from which the likelihood is chosen."""
FINALISTS = {"cpu": 2, "cuda": 12}
"""Smallest number of models in a round: fewer would leave processors idle."""


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
