"""A small data set that every method can train on."""

import numpy as np
import pytest

import unweave as uw


@pytest.fixture(scope="session")
def sprites():
    """768 sprites of 32 × 32 pixels on a whole grid."""
    full = uw.data.load("dsprites").slice(
        scale=[5], orientation=[0], posX=range(0, 32, 2), posY=range(0, 32, 2)
    )
    images = full[:].reshape(len(full), 32, 2, 32, 2).mean((2, 4)) / 255
    factors = full.factors(np.arange(len(full)))
    table = {name: factors[:, k] for k, name in enumerate(full.grid.names)}
    return uw.data.load(images, factors=table, name="sprites")
