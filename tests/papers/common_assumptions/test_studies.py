"""Studies of recipes: the published grid at the scale `paper`, and parts of it at the others."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from unweave.data import DATASETS
from unweave.methods import METHODS
from unweave.papers import SCALES, find, ready

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
VARIANCE = find("common-assumptions/variance-explained")
STUDIES = VARIANCE.studies


def test_the_papers_study_is_the_12600_models():
    runs = VARIANCE.study("paper").runs()
    assert len(runs) == 7 * 6 * 6 * 50 == 12_600
    assert len({run.hash for run in runs}) == 12_600


@pytest.mark.parametrize("recipe", ready("common-assumptions"), ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("scale", SCALES)
def test_all_recipes_of_a_paper_train_the_same_runs(recipe, scale):
    study, shared = recipe.study(scale), STUDIES[scale]
    for name in ("name", "data", "methods", "seeds", "steps", "settings"):
        assert getattr(study, name) == shared[name]
    assert study.metrics == (*shared["metrics"], *recipe.adds)


@pytest.mark.parametrize("scale", SCALES)
def test_a_recipe_measures_what_its_comparison_needs(scale):
    """All methods, and at least two seeds, strengths and data sets, for transfer."""
    keys = STUDIES[scale]
    assert set(keys["methods"]) == {
        "beta_vae",
        "factor_vae",
        "dip_vae_i",
        "dip_vae_ii",
        "beta_tc_vae",
        "annealed_vae",
    }
    assert set(keys["methods"]) <= set(METHODS)
    assert keys["seeds"] >= 2
    assert len(keys["data"]) >= 2
    assert keys["methods"]["annealed_vae"]["threshold"] == keys["steps"] // 3
    assert {"classic", "elbo", "gaussian_total_correlation"} <= set(keys["metrics"])
    assert keys["sampled"] == ["gaussian_total_correlation"]


def models(scale):
    """Number of models per data set."""
    keys = STUDIES[scale]
    strengths = [
        math.prod(len(v) for v in grid.values() if isinstance(v, list))
        for grid in keys["methods"].values()
    ]
    return sum(strengths) * keys["seeds"]


def seconds_per_step(method, data, size):
    """Time per step of a fleet on an H200, interpolated between measured sizes."""
    name = "fleet_h200.json" if DATASETS[data].shape[2] == 1 else "fleet_h200_colour.json"
    rows = [r for r in json.loads((RESULTS / name).read_text())["fleet"] if r["method"] == method]
    sizes = [row["models"] for row in rows]
    fleets = [row["models"] * row["us_per_model_step"] * 1e-6 for row in rows]
    return np.interp(size, sizes, fleets)


def test_the_hour_fits_and_needs_no_download():
    """22 minutes are enough with a margin of 40 % and nearly five minutes for scores."""
    keys = STUDIES["hour"]
    assert all("rendered locally" in DATASETS[name].source for name in keys["data"])
    size = models("hour") / len(keys["methods"])
    assert size == 12
    seconds = keys["steps"] * sum(
        seconds_per_step(method, data, size) for method in keys["methods"] for data in keys["data"]
    )
    assert 600 < seconds < (22 - 4.75) * 60 / 1.4


def test_smoke_is_small():
    """Assuming about 25 ms per model-step on two cores."""
    keys = STUDIES["smoke"]
    steps = keys["steps"] * models("smoke") * len(keys["data"])
    assert steps * 0.025 < 200
    assert {entry["load"] for entry in keys["data"]} == {"dsprites", "color_dsprites"}
