"""Fixtures: small data sets and studies."""

import shutil

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from unweave.study import Study


@pytest.fixture(scope="session")
def few(tmp_path_factory):
    """48 sprites of 16 × 16 pixels in a file, and their factors in another."""
    places = [0, 10, 20, 31]
    full = uw.data.load("dsprites").slice(scale=5, orientation=0, posX=places, posY=places)
    folder = tmp_path_factory.mktemp("few")
    images = full[:].reshape(len(full), 16, 4, 16, 4).mean((2, 4))
    np.save(folder / "few.npy", images.astype(np.uint8)[..., None])
    factors = full.factors(np.arange(len(full)))[:, [0, 3, 4]]
    pd.DataFrame(factors, columns=["shape", "x", "y"]).to_csv(folder / "few.csv", index=False)
    return {"load": str(folder / "few.npy"), "factors": str(folder / "few.csv")}


@pytest.fixture(scope="session")
def small(few):
    """Creates a small study with the given changes."""

    def made(**changes):
        said = {
            "name": "small",
            "data": [few],
            "methods": {"beta_vae": {"beta": [1, 4]}},
            "seeds": 2,
            "steps": 12,
            "metrics": ["mig", "active_units"],
            "settings": {"batch": 8, "architecture": "small_mlp"},
        }
        return Study.from_dict({**said, **changes})

    return made


@pytest.fixture
def done(kept, tmp_path):
    """A new copy of the folder of a small finished study, which each module makes as `kept`."""
    return shutil.copytree(kept, tmp_path / "done")
