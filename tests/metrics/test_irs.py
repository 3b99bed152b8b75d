"""IRS compared with the reference and with a direct implementation of the definition."""

import numpy as np
import pytest

from unweave.metrics import irs


def textbook(codes, factors, quantile):
    """Definition in the paper, with loops, for factors with at most 20 values."""
    scores, reaches = [], []
    for code in codes.T:
        reach = np.abs(code - code.mean()).max()
        robust = []
        for factor in factors.T:
            strays = []
            for value in np.unique(factor):
                near = code[factor == value]
                strays.append(np.quantile(np.abs(near - near.mean()), quantile))
            robust.append(1 - np.mean(strays) / reach)
        scores.append(max(robust))
        reaches.append(reach)
    return np.average(scores, weights=reaches)


def test_equals_the_reference(golden):
    score = irs(*golden.train)["irs"]
    assert score == pytest.approx(golden.fixed["irs"], abs=1e-6)


def test_full_grid_is_sampled_as_in_the_protocol(golden):
    """11,520 rows exceed 10,000, so rows are sampled; the score is close to the reference."""
    reference = [run["irs"] for run in golden.sampled]
    assert irs(golden.codes, golden.factors)["irs"] == pytest.approx(np.mean(reference), abs=0.02)
    assert irs(golden.codes, golden.factors, seed=1) != irs(golden.codes, golden.factors, seed=2)


@pytest.mark.parametrize("quantile", [0.5, 0.99, 1.0])
def test_equals_the_definition(quantile):
    rng = np.random.default_rng(3)
    factors = rng.integers(0, [2, 7, 20], (500, 3))
    codes = factors @ rng.normal(size=(3, 4)) + rng.normal(size=(500, 4))
    score = irs(codes, factors, quantile=quantile)["irs"]
    assert score == pytest.approx(textbook(codes, factors, quantile), abs=1e-12)


def test_factors_with_many_values_use_twenty_bins():
    """200 values in 20 bins: a code that follows the factor exactly moves within each bin."""
    factor = np.repeat(np.arange(200), 5)
    assert irs(factor, factor)["irs"] == pytest.approx(1 - 4.5 / 99.5, abs=1e-12)


def test_constant_codes_are_ignored():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 5, (300, 2))
    codes = factors + rng.normal(size=(300, 2))
    with_constant = np.column_stack([codes, np.full(300, 0.1)])
    assert irs(with_constant, factors) == irs(codes, factors)
    assert irs(np.full((300, 3), 0.1), factors) == {"irs": 0.0, "num_active": 0.0}
