"""Confidence intervals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.raising import about
from unweave.metrics import METRICS, MetricError, interval


def mean(codes, factors, seed=0):
    return {"mean": float(np.mean(codes))}


def test_interval_of_a_mean():
    codes = np.random.default_rng(0).normal(3, 2, (400, 1))
    found = interval(mean, codes, resamples=400)["mean"]
    assert found.score == codes.mean()
    half = 1.96 * codes.std() / 400**0.5
    assert_allclose(
        [found.low, found.high], [found.score - half, found.score + half], atol=half / 5
    )


def test_coverage():
    """Nine in ten intervals contain the mean."""
    generator = np.random.default_rng(1)
    held = 0
    for number in range(200):
        codes = generator.exponential(2.0, (150, 1))
        found = interval(mean, codes, seed=number, resamples=40, level=0.9)["mean"]
        held += found.low <= 2.0 <= found.high
    assert 165 <= held <= 195


def test_higher_level_gives_wider_interval():
    codes = np.random.default_rng(0).normal(size=(100, 1))
    narrow, wide = (interval(mean, codes, level=level)["mean"] for level in (0.5, 0.99))
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)


def test_training_rows_are_not_tested():
    seen = []

    def remember(codes, factors, seed=0):
        seen.append(codes)
        return {"count": float(len(codes))}

    interval(remember, np.arange(30.0), np.arange(30) % 2, resamples=5)
    for codes in seen[1:]:
        assert codes[:20].max() < 20 <= codes[20:].min()


def test_grid_is_resampled_by_seed():
    seen = []

    def remember(codes, factors, seed=0):
        seen.append((len(codes), seed))
        return {"seed": float(seed)}

    grid = np.stack(np.unravel_index(np.arange(6), (2, 3)), 1)
    interval(remember, grid.astype(float), grid, seed=10, resamples=2)
    assert seen == [(6, 10), (6, 11), (6, 12)]


def test_every_score_has_an_interval_and_headline_is_clipped():
    factors = np.random.default_rng(0).integers(0, 3, (300, 2))
    codes = factors + np.random.default_rng(1).normal(0, 0.02, (300, 2))
    found = interval(METRICS["sap"], codes, factors, resamples=10)
    assert found["sap"].low < found["sap"].score < found["sap"].high <= 1
    found = interval(METRICS["factor_vae"], codes, factors, resamples=3, train=50, test=50)
    assert found["factor_vae"] == (1, 1, 1)
    assert set(found) == {"factor_vae", "train_accuracy", "active"}


def test_options_with_a_row_per_image_are_resampled():
    codes = np.arange(12.0)[:, None]

    def check(codes, factors, seed=0, logvars=None):
        assert (np.asarray(logvars) == codes + 1).all()
        return {"fine": 1.0}

    assert interval(check, codes, resamples=3, logvars=codes + 1)["fine"].low == 1


def test_same_seed_same_interval():
    codes = np.random.default_rng(0).normal(size=(100, 1))
    assert interval(mean, codes, seed=4) == interval(mean, codes, seed=4)
    assert interval(mean, codes, seed=4) != interval(mean, codes, seed=5)


@pytest.mark.parametrize(("option", "value"), [("resamples", 1), ("level", 1.0)])
def test_errors(option, value):
    with pytest.raises(MetricError, check=about(option, value)):
        interval(mean, np.arange(5.0), **{option: value})
