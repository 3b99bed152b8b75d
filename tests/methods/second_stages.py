"""Real second stages over a first stage that was trained on a small grid."""

from functools import cache

import numpy as np

import unweave as uw
from unweave.methods import BetaVAE
from unweave.models.config import Config
from unweave.nets.adam import Adam


def blobs():
    """A blob, or a ring, at 6 × 6 places, 32 pixels wide."""
    at = np.arange(32)
    images = np.zeros((2, 6, 6, 32, 32, 1))
    for hole, down, right in np.ndindex(2, 6, 6):
        far = (at[:, None] - 6 - 4 * down) ** 2 + (at - 6 - 4 * right) ** 2
        images[hole, down, right, ..., 0] = np.exp(-far / 50) - hole * np.exp(-far / 8)
    factors = np.stack(np.indices((2, 6, 6)), -1).reshape(-1, 3)
    pixels = np.rint(255 * images).astype(np.uint8).reshape(-1, 32, 32, 1)
    return uw.data.load(pixels, factors=factors)


@cache
def first_stage():
    """A VAE of the blobs with two latents, which know where a blob is, and not of its hole."""
    return uw.train(
        BetaVAE(beta=1),
        blobs(),
        steps=400,
        batch=16,
        latents=2,
        architecture="small_mlp",
        optimiser=Adam(lr=3e-3),
        device="cpu",
        progress=False,
    )


def second_runs(methods, seeds, latents=3, **settings):
    """Runs over β-VAEs with two latents, and these as they begin."""
    below = Config(method=BetaVAE(), latents=2, architecture="small_mlp", seed=1)
    return [
        Config(
            method=method,
            seed=seed,
            batch=4,
            latents=latents,
            architecture="small_dcgan",
            first=below,
            **settings,
        )
        for method, seed in zip(methods, seeds, strict=True)
    ]
