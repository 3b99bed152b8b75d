"""Small coloured sprites: place and shape are easy to learn, a fine pattern is not."""

import numpy as np
import pytest
import torch

import unweave as uw


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors this small gain nothing from threads, which wait long for busy cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def sprites():
    """1,024 sprites of 32 × 32 pixels: two shapes, 8 × 8 places, 8 patterns of stripes."""
    full = uw.data.load("dsprites").slice(
        shape=[0, 1], scale=[5], orientation=[0], posX=range(0, 32, 4), posY=range(0, 32, 4)
    )
    masks = full[:].reshape(len(full), 32, 2, 32, 2).mean((2, 4)) / 255
    row, column = np.mgrid[:32, :32]
    angles = np.arange(8) * np.pi / 8
    stripes = [np.cos(1.6 * (np.cos(a) * row + np.sin(a) * column)) > 0 for a in angles]
    images = np.concatenate([masks * (0.35 + 0.65 * pattern) for pattern in stripes])
    factors = full.factors(np.arange(len(full)))
    table = {name: np.tile(factors[:, k], 8) for k, name in enumerate(full.grid.names)}
    table["pattern"] = np.repeat(np.arange(8), len(full))
    return uw.data.load(images, factors=table, name="striped")


@pytest.fixture(scope="session")
def first(sprites):
    """Two models of a first stage, hardly trained."""
    method = uw.methods.BetaTCVAE(beta=[1, 4])
    return uw.train(method, sprites, steps=20, batch=16, latents=6, progress=False)
