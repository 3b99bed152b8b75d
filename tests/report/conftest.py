"""A small study, a folder of runs and a fleet, trained once, and their reports."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

import unweave as uw

QUICK = {"steps": 2, "batch": 8, "latents": 4, "optimiser": uw.Adam(lr=3e-3), "progress": False}
STRETCH = 1.8
NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="session")
def sprites(tmp_path_factory):
    """Save 96 sprites of 32 × 32 pixels and their factors; return the paths."""
    places = [0, 10, 20, 31]
    full = uw.data.load("dsprites").slice(scale=[2, 5], orientation=0, posX=places, posY=places)
    folder = tmp_path_factory.mktemp("sprites")
    images = full[:].reshape(len(full), 32, 2, 32, 2).mean((2, 4))
    np.save(folder / "sprites.npy", images.astype(np.uint8)[..., None])
    factors = full.factors(np.arange(len(full)))[:, [0, 1, 3, 4]]
    names = ["shape", "scale", "x", "y"]
    pd.DataFrame(factors, columns=names).to_csv(folder / "sprites.csv", index=False)
    return folder / "sprites.npy", folder / "sprites.csv"


@pytest.fixture(scope="session")
def data(sprites):
    images, factors = sprites
    return uw.data.load(str(images), factors=str(factors))


@pytest.fixture(scope="session")
def fleet(data):
    """Return six models: three with β = 1 are nearly identical, one of the others diverged.

    Their weights are scaled up, which makes latents active without long training.
    """
    trained = uw.train(uw.methods.BetaVAE(beta=[1, 4]), data, seeds=3, **QUICK)
    noise = torch.Generator().manual_seed(0)
    stretched = {}
    for name, buffer in trained.parameters.items():
        mixed = STRETCH * buffer
        mixed[1:3] = mixed[0]
        mixed[:3] *= 1 + 0.02 * torch.randn(mixed[:3].shape, generator=noise)
        stretched[name] = mixed
    diverged_at = np.array([-1, -1, -1, -1, 2, -1])
    return dataclasses.replace(trained, parameters=stretched, diverged_at=diverged_at)


@pytest.fixture(scope="session")
def runs(fleet, tmp_path_factory):
    """Return the folder of their runs."""
    folder = tmp_path_factory.mktemp("trained") / "sprite runs"
    fleet.save(folder)
    return folder


@pytest.fixture(scope="session")
def study(sprites, tmp_path_factory):
    """Run a study with a malicious name, two strengths and two data sets; return its folder."""
    images, factors = sprites
    source = {"load": str(images), "factors": str(factors)}
    made = uw.study.Study(
        name=NASTY,
        data=[{"name": "sprites & <b>co</b>", **source}, {**source, "slice": {"scale": 1}}],
        methods={"beta_vae": {"beta": [1, 4]}},
        seeds=2,
        steps=2,
        metrics=["mig", "active_units"],
        settings={"batch": 8, "latents": 4},
    )
    folder = tmp_path_factory.mktemp("study") / "small"
    uw.study.run(made, folder, scorers=0)
    return folder
