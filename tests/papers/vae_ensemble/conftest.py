"""A small study with an ensemble of each kind."""

import pytest

import unweave as uw
from unweave.study.sources import Source
from unweave.study.study import Study

FEW = {
    "load": "dsprites",
    "slice": {"scale": 5, "orientation": [0, 10], "posX": [0, 9, 18], "posY": [0, 9, 18]},
}
APART = {"cross_reconstruction": False, "alignment": False}
STUDY = Study(
    name="tiny",
    data=[FEW],
    methods={
        "vae": {},
        "beta_vae": {"beta": [4, 0.5]},
        "vae_ensemble": [
            {"members": [2, 3], "gamma": 10},
            {"members": 2, "gamma": 10, "cross_reconstruction": False},
            {"members": 2, "gamma": 0, "alignment": False},
            {"members": 3, "gamma": 0, **APART},
        ],
    },
    seeds=2,
    steps=2,
    metrics=[],
    settings={"batch": 4, "latents": 3, "optimiser": {"lr": 3e-3}},
)


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """The folder and the table of a study with an ensemble of each kind."""
    folder = tmp_path_factory.mktemp("study")
    return folder, uw.study.run(STUDY, folder, scorers=0, progress=False).table


@pytest.fixture(scope="session")
def images():
    return Source.of(FEW).open()
