"""Fixtures: a small grid of sprites and a few models trained on it."""

import pytest

import unweave as uw


@pytest.fixture(scope="session")
def sprites():
    """192 sprites: three shapes at 8 × 8 positions."""
    places = range(0, 32, 4)
    return uw.data.load("dsprites").slice(scale=[5], orientation=[0], posX=places, posY=places)


@pytest.fixture(scope="session")
def fleet(sprites):
    """Four models, trained long enough to differ."""
    method = uw.methods.BetaVAE(beta=[1, 4])
    adam = uw.Adam(lr=1e-3)
    return uw.train(method, sprites, seeds=2, steps=20, batch=16, optimiser=adam, progress=False)


@pytest.fixture
def runs(fleet, tmp_path):
    """The folder where these models are saved."""
    fleet.save(tmp_path / "runs")
    return tmp_path / "runs"
