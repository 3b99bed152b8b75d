"""Rows that share one factor value, or all but one, in grids and samples."""

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics.base import MetricError, table
from unweave.metrics.tools.grouped_rows import families, groups, interventions, siblings

SIZES = (3, 4, 5)


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


def test_too_sparse():
    factors = np.stack([np.arange(100) % 4, np.arange(100)], 1)
    thin = table(np.zeros(100), factors)
    groups(thin, 0)
    with pytest.raises(MetricError, check=about("factor 1", 100)):
        groups(thin, 1)


@pytest.fixture
def grid():
    factors = np.indices(SIZES).reshape(3, -1).T
    return table(np.arange(60.0), factors)


def test_families_are_the_combinations_of_the_others(grid):
    for factor in range(3):
        numbers = families(grid, factor)
        others = np.delete(grid.factors, factor, 1)
        for number in range(60 // SIZES[factor]):
            members = others[numbers == number]
            assert len(members) == SIZES[factor]
            assert (members == members[0]).all()


def test_many_factors_of_many_values_do_not_overflow():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 2**11, (3000, 8))
    doubled = table(np.zeros(6000), np.concatenate([factors, factors]))
    numbers = families(doubled, 3)
    assert len(np.unique(numbers)) == 3000
    assert (numbers[:3000] == numbers[3000:]).all()


def test_partners_differ_in_one_factor_only(grid):
    grouped, usable = siblings(grid, 1)
    assert len(usable) == 60
    rows = np.repeat(np.arange(60), 200)
    partners = grouped.partners(rows, np.random.default_rng(0))
    assert (grid.factors[rows][:, [0, 2]] == grid.factors[partners][:, [0, 2]]).all()
    counts = np.bincount(grid.factors[partners, 1])
    assert counts == pytest.approx(np.full(4, 3000), rel=0.08)


def test_rows_without_siblings_are_not_used(grid):
    """One complete family and one row of each other: only 4 of 18 rows are usable."""
    alone = np.flatnonzero((grid.factors[:, 1] == 0) & (grid.factors[:, [0, 2]] != 0).any(1))
    family = np.flatnonzero((grid.factors[:, [0, 2]] == 0).all(1))
    with pytest.raises(MetricError, check=about("factor 1", 4)):
        siblings(grid.rows(np.concatenate([family, alone])), 1)
    usable = siblings(grid.rows(np.concatenate([family, alone[:3]])), 1)[1]
    assert usable.tolist() == [0, 1, 2, 3]


def test_interventions_set_one_factor_to_each_value(grid):
    rows = interventions(grid, 2, 100, np.random.default_rng(0))
    assert rows.shape == (100, 5)
    found = grid.factors[rows]
    assert (found[:, :, 2] == np.arange(5)).all()
    assert (found[:, :, :2] == found[:, :1, :2]).all()


def test_interventions_in_a_sparse_sample_are_rejected(grid):
    without_one = grid.rows(np.arange(59))
    assert interventions(without_one, 2, 11, np.random.default_rng(0)).max() < 55
    with pytest.raises(MetricError, check=about("factor 2", 11)):
        interventions(without_one, 2, 12, np.random.default_rng(0))


def test_duplicate_rows_are_all_sampled():
    factors = np.tile(np.indices((2, 2)).reshape(2, -1).T, (3, 1))
    doubled = table(np.zeros(12), factors)
    seen = {interventions(doubled, 0, 1, np.random.default_rng(s)).tobytes() for s in range(60)}
    assert len(seen) > 9
