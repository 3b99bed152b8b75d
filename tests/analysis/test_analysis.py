"""All results, on a study of 12,600 models."""

import time

import pytest

from unweave import analysis

RESULTS = [
    "total_correlation",
    "total_correlation_trend",
    "metric_agreement",
    "score_distributions",
    "method_wins",
    "seed_against_strength",
    "variance_explained",
    "unsupervised_selection",
    "transfer",
    "data_agreement",
    "downstream_agreement",
]
NO_MODELS_COUNTED = ("transfer", "data_agreement")  # but draws and configurations


@pytest.mark.parametrize("name", RESULTS)
def test_the_large_study_takes_at_most_two_seconds(full, name):
    before, start = full.copy(), time.process_time()
    found = getattr(analysis, name)(full)
    assert time.process_time() - start < 2
    assert len(found) > 0
    assert found.attrs["note"].endswith(".")
    assert found.index.tolist() == list(range(len(found)))
    assert full.equals(before)


@pytest.mark.parametrize("name", [name for name in RESULTS if name not in NO_MODELS_COUNTED])
def test_the_diverged_model_is_counted(full, name):
    found = getattr(analysis, name)(full[full["data"] == "shapes3d"])
    assert found["left_out"].max() == 1
