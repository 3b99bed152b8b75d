"""Study tables with known answers."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from unweave.papers import find
from unweave.papers.common_assumptions.results import METRICS

METHODS = find("common-assumptions/transfer").studies["paper"]["methods"]
STRENGTHS = {name: next(iter(grid.values())) for name, grid in METHODS.items()}
"""Six strengths of each of the six methods."""
ACCURACIES = [
    f"downstream.{predictor}_accuracy_{rows}"
    for predictor in ("logistic", "trees")
    for rows in (10, 100, 1_000, 10_000)
]
OTHERS = (
    "elbo",
    "elbo.kl",
    "elbo.reconstruction_error",
    "gaussian_total_correlation",
    "sampled.gaussian_total_correlation",
    "gaussian_total_correlation.active_total_correlation",
    "downstream.logistic_efficiency",
    "downstream.trees_efficiency",
    *ACCURACIES,
)


def make_table(data, seeds=4):
    """A table of the paper's grid with random scores and `level`, the rank of the strength."""
    rows = [
        (name, method, float(strength), seed, level)
        for name, (method, strengths) in product(data, STRENGTHS.items())
        for level, strength in enumerate(strengths)
        for seed in range(seeds)
    ]
    table = pd.DataFrame(rows, columns=["data", "method", "strength", "seed", "level"])
    rng = np.random.default_rng(0)
    for column in (*METRICS, *OTHERS):
        table[column] = rng.random(len(table))
    return table


@pytest.fixture(scope="session")
def made():
    return make_table
