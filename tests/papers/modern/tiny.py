"""A small study of three methods, and the images on which it is scored."""

import numpy as np

from unweave.models.images import sample_rows
from unweave.papers.measurements import IMAGES
from unweave.papers.modern import comparison
from unweave.study.sources import Source
from unweave.study.study import Study

FEW = {
    "load": "dsprites",
    "slice": {"orientation": list(range(0, 40, 5)), "posX": [0, 31], "posY": [0, 31]},
}
STUDY = Study(
    name="tiny",
    data=[FEW],
    methods={
        "ae": {},
        "qlae": {},
        "beta_vae": {"beta": 4},
    },
    seeds=2,
    steps=40,
    metrics=list(comparison.METRICS),
    settings={
        "batch": 16,
        "latents": 3,
        "architecture": "small_mlp",
        "init": "torch",
        "optimiser": {"lr": 1e-3},
    },
)


def sample():
    data = Source.of(FEW).open()
    rows = sample_rows(data, IMAGES)
    return data, rows, np.asarray(data.factors(rows))
