"""Study tables with known results."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

STRENGTHS = {
    "beta_vae": (1, 2, 4, 6, 8, 16),
    "factor_vae": (10, 20, 30, 40, 50, 100),
    "beta_tc_vae": (1, 2, 4, 6, 8, 10),
    "dip_vae_i": (1, 2, 5, 10, 20, 50),
    "dip_vae_ii": (1, 2, 5, 10, 20, 50),
    "annealed_vae": (5, 10, 25, 50, 75, 100),
}
DATA = ("dsprites", "color_dsprites", "noisy_dsprites", "scream_dsprites", "smallnorb", "cars3d")
CLASSIC = ("beta_vae", "factor_vae", "mig", "modularity", "dci", "sap")


def make_design(data=(*DATA, "shapes3d"), strengths=STRENGTHS, seeds=50):
    """Every combination of data set, method, strength and seed, without scores."""
    rows = [
        (name, method, float(strength), seed)
        for name, (method, values) in product(data, strengths.items())
        for strength, seed in product(values, range(seeds))
    ]
    return pd.DataFrame(rows, columns=["data", "method", "strength", "seed"])


@pytest.fixture(scope="session")
def design():
    return make_design


@pytest.fixture(scope="session")
def full():
    """A study of 12,600 models with every column, its scores noise; the last model diverged."""
    table = make_design()
    rng = np.random.default_rng(0)
    columns = [*CLASSIC, "reconstruction", "kl", "elbo"]
    for codes in ("", "sampled."):
        columns.append(f"{codes}gaussian_total_correlation")
        columns.append(f"{codes}gaussian_total_correlation.active_total_correlation")
    for predictor in ("logistic", "trees"):
        columns += [f"downstream.{predictor}_accuracy_{n}" for n in (10, 100, 1000, 10000)]
        columns += [f"downstream.{predictor}_accuracy_100_factor_0"]
        columns += [f"downstream.{predictor}_efficiency"]
    scores = pd.DataFrame(rng.random((len(table), len(columns))), columns=columns)
    scores.iloc[-1] = np.nan
    return pd.concat([table, scores], axis=1)
