"""Rows that share a factor's value."""

import numpy as np
import pytest

from unweave.metrics.base import MetricError, table
from unweave.metrics.groups import groups


@pytest.fixture
def sample():
    factors = np.random.default_rng(0).integers(0, (3, 5), (200, 2))
    return table(np.arange(200.0), factors)


@pytest.mark.parametrize("factor", [0, 1])
def test_partners_share_the_value(sample, factor):
    rows = np.random.default_rng(1).integers(200, size=(50, 8))
    partners = groups(sample, factor).partners(rows, np.random.default_rng(2))
    values = sample.factors[:, factor]
    assert (values[rows] == values[partners]).all()
    other = sample.factors[:, 1 - factor]
    assert not (other[rows] == other[partners]).all()


def test_every_row_of_the_group_is_equally_likely(sample):
    values = sample.factors[:, 0]
    partners = groups(sample, 0).partners(np.zeros(100_000, int), np.random.default_rng(2))
    counts = np.bincount(partners, minlength=200)
    group = values == values[0]
    assert (counts[~group] == 0).all()
    expected = 100_000 / group.sum()
    assert abs(counts[group] - expected).max() < 5 * expected**0.5


def test_many_values():
    values = np.repeat(np.arange(70_000), 2)
    partners = groups(table(np.zeros(140_000), values), 0).partners(
        np.arange(140_000), np.random.default_rng(0)
    )
    assert (partners // 2 == np.arange(140_000) // 2).all()


def test_too_thin():
    factors = np.stack([np.arange(100) % 4, np.arange(100)], 1)
    thin = table(np.zeros(100), factors)
    groups(thin, 0)
    with pytest.raises(MetricError, match="100 share their value of factor 1 with no other"):
        groups(thin, 1)
