"""MCC against SciPy's correlations and a search over all matchings."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.raising import about
from unweave.errors import UnknownNameError
from unweave.metrics import mcc


def best_matching(strength):
    """The largest mean over factors (rows) by trying every matching."""
    factors, codes = strength.shape
    return max(
        np.mean([strength[k, j] for k, j in enumerate(chosen)])
        for chosen in permutations(range(codes), factors)
    )


@pytest.fixture
def square():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(500, 4))
    return np.exp(factors @ rng.normal(size=(4, 4))), factors


def test_square_tables_equal_the_best_matching(square):
    codes, factors = square
    ranks = np.abs(spearmanr(factors, codes).statistic[:4, 4:])
    values = np.abs(np.corrcoef(factors.T, codes.T)[:4, 4:])
    scores = mcc(codes, factors)
    assert scores["mcc"] == scores["spearman"] == pytest.approx(best_matching(ranks), abs=1e-9)
    assert scores["pearson"] == pytest.approx(best_matching(values), abs=1e-9)
    assert mcc(codes, factors, correlation="pearson")["mcc"] == scores["pearson"]


def test_padding_takes_part_in_the_matching(square):
    """The sum with noise is the largest, which need not be the largest sum without it."""
    codes, factors = square
    padded = np.column_stack([factors[:, :2], np.random.default_rng(5).normal(size=(500, 2))])
    strength = np.abs(spearmanr(padded, codes).statistic[:4, 4:])
    best = max(permutations(range(4)), key=lambda p: sum(strength[k, j] for k, j in enumerate(p)))
    expected = (strength[0, best[0]] + strength[1, best[1]]) / 2
    assert mcc(codes, factors[:, :2], seed=5)["mcc"] == pytest.approx(expected, abs=1e-9)


def test_signed_permutations_and_monotone_maps_are_perfect(square):
    factors = square[1]
    codes = np.column_stack([factors[:, [2, 0, 3, 1]] ** 3 * [1, -1, 5, -0.1], np.ones(500)])
    scores = mcc(codes, factors)
    assert scores["spearman"] == pytest.approx(1)
    assert scores["pearson"] < 0.95


def test_values_of_factors_count_and_not_only_their_ranks():
    values = np.array([0.0, 1.0, 10.0, 100.0])[np.random.default_rng(0).integers(0, 4, 400)]
    assert mcc(values, values)["pearson"] == pytest.approx(1)
    assert mcc(np.log1p(values), values)["pearson"] < 0.95


def test_unmatched_factors_score_zero(square):
    factors = square[1]
    assert mcc(factors[:, :1], factors)["mcc"] == pytest.approx(1 / 4)
    assert mcc(np.ones((500, 4)), factors)["mcc"] == 0


def test_unknown_correlation_is_rejected(square):
    with pytest.raises(UnknownNameError, check=about("correlation", "kendall")):
        mcc(*square, correlation="kendall")
