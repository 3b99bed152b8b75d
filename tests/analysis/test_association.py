"""Associations of latents with factors against SciPy and a plain loop, and degenerate inputs."""

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from unweave.analysis.association import association, associations


@pytest.fixture
def planted():
    """Codes `[200, 3]`: a monotone and a noisy function of an ordered factor, and noise."""
    rng = np.random.default_rng(0)
    v = rng.integers(0, 8, 200)
    codes = np.stack([-np.exp(v), v + rng.normal(size=200), rng.normal(size=200)], 1)
    return codes, v


def test_ordered_factors_have_the_absolute_rank_correlation(planted):
    codes, v = planted
    expected = [abs(spearmanr(column, v).statistic) for column in codes.T]
    np.testing.assert_allclose(association(codes, v), expected, atol=1e-12)
    np.testing.assert_allclose(association(codes, 3 * v - 5), expected, atol=1e-12)
    assert association(codes, v)[0] == pytest.approx(1)


def test_unordered_factors_have_the_correlation_ratio_of_ranks(planted):
    codes, v = planted
    found = association(codes, v, categorical=True)
    for column, value in zip(codes.T, found, strict=True):
        ranks = rankdata(column)
        within = sum(((ranks[v == k] - ranks[v == k].mean()) ** 2).sum() for k in range(8))
        total = ((ranks - ranks.mean()) ** 2).sum()
        assert value**2 == pytest.approx(max(0, 1 - 199 / 192 * within / total))
    shuffled = np.random.default_rng(1).permutation(8)[v]
    np.testing.assert_allclose(association(codes, shuffled, categorical=True), found)
    assert association(codes, shuffled)[0] < 0.9  # the order matters otherwise


def test_two_classes_have_no_order(planted):
    codes, v = planted
    two = v > 3
    np.testing.assert_array_equal(association(codes, two), association(codes, two, True))


def test_nothing_that_is_constant_is_associated(planted):
    codes, v = planted
    codes[:, 1] = 5
    assert association(codes, v)[1] == association(codes, v, True)[1] == 0
    assert not association(codes, np.zeros(200)).any()
    assert not association(codes, np.arange(200), categorical=True).any()  # a class per image


def test_a_row_per_factor(planted):
    codes, v = planted
    found = associations(codes, np.stack([v, v > 3], 1), [True, False])
    np.testing.assert_array_equal(found[0], association(codes, v, True))
    np.testing.assert_array_equal(found[1], association(codes, v > 3))
    assert associations(codes, np.zeros((200, 0)), []).shape == (0, 3)
