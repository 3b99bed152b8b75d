"""Selection with few labels equals the metric on the labelled rows."""

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from tests.select.planted import rotation
from unweave.errors import UnknownNameError
from unweave.select import Latents, SelectionError, supervised
from unweave.select.ranking import DIVERGED


@pytest.fixture
def candidates():
    """Four models `[4, 3000, 3]`, more and more entangled, and their factors."""
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 5, size=(3_000, 3))
    turn = rotation(3, 2)
    codes = [factors @ ((1 - s) * np.eye(3) + s * turn) for s in (0, 0.3, 0.6, 1)]
    return np.stack(codes) + 0.05 * rng.normal(size=(4, 3_000, 3)), factors


@pytest.mark.parametrize("labels", [100, 1_000])
@pytest.mark.parametrize("metric", ["mig", "sap"])
def test_scores_are_the_metric_on_the_labelled_rows(candidates, labels, metric):
    codes, factors = candidates
    ranking = supervised(codes, factors, labels=labels, metric=metric, seed=5)
    rows = np.random.default_rng(5).permutation(3_000)[:labels]
    for model, score in zip(ranking["model"], ranking["score"], strict=True):
        expected = uw.metrics.METRICS[metric](codes[model][rows], factors[rows], 5)[metric]
        assert score == expected
    assert ranking["reason"][0].endswith(f"on {labels:,} labelled rows")


def test_more_labels_choose_better(candidates):
    """The aligned model is found with 100 and 1,000 labels; with 10 mostly."""
    codes, factors = candidates
    hits = {
        labels: sum(
            supervised(codes, factors, labels=labels, seed=seed)["model"][0] == 0
            for seed in range(10)
        )
        for labels in (10, 100, 1_000)
    }
    assert hits[1_000] == hits[100] == 10
    assert hits[10] >= 4


def test_metrics_where_lower_is_better_are_sorted_ascending(candidates):
    codes, factors = candidates
    ranking = supervised(codes[:2], factors, labels=400, metric="strong_generalisation")
    assert ranking["score"].is_monotonic_increasing


def test_metric_errors_become_reasons(candidates):
    codes, factors = candidates
    factors = np.where(np.arange(3_000)[:, None] == 0, 1, np.zeros_like(factors))
    ranking = supervised(codes, factors, labels=10)
    assert ranking["score"].isna().all()
    assert ranking["reason"].str.contains("factors must vary").all()


def test_diverged_models_come_last(candidates):
    codes, factors = candidates
    codes[0, 7] = np.inf
    last = supervised(Latents(codes), factors).iloc[-1]
    assert last["model"] == 0
    assert last["reason"] == DIVERGED


def test_invalid_choices_are_named(candidates):
    codes, factors = candidates
    with pytest.raises(UnknownNameError, check=about(value="elbo")):
        supervised(codes, factors, metric="elbo")
    with pytest.raises(SelectionError, check=about("factors", 10)):
        supervised(codes, factors[:10])


def test_a_trained_fleet_is_encoded_at_the_labelled_images():
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
    fleet = uw.train(uw.methods.VAE(), data, seeds=2, steps=3, batch=8, progress=False)
    ranking = uw.select.supervised(fleet, data, labels=100, metric="mcc")
    rows = np.random.default_rng(0).permutation(1_024)[:100]
    for model, score in zip(ranking["model"], ranking["score"], strict=True):
        codes = fleet[model].encode(data.images(rows))[0].astype(float)
        assert score == pytest.approx(uw.metrics.mcc(codes, data.factors(rows))["mcc"], abs=1e-6)
