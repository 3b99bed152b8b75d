"""Pairs: which factors change, and how, compared with the distributions in the papers."""

import numpy as np
import pytest
import torch
from scipy import stats

from tests.raising import about
from unweave.data.grid import Factor, Grid
from unweave.data.pairs import (
    LaplaceTransitions,
    Neighbours,
    UniformTransitions,
    WeakPairs,
    transition_rule,
)
from unweave.errors import DataError, UnweaveError
from unweave.random import Stream

GRID = Grid(
    (
        Factor("shape", "xyz", categorical=True),
        Factor("scale", range(6)),
        Factor("turn", range(9)),
        Factor("place", range(5)),
    )
)
NUM = 40_000


def pairs(rule, grid=GRID, num=NUM):
    first = grid.factors(Stream(0, "draw").integers(len(grid), num, 1)[:, 0])
    second = rule(grid, first, Stream(0, "pair"))
    assert ((second >= 0) & (second < torch.tensor(grid.sizes))).all()
    return first.numpy(), second.numpy()


def changes(first, second):
    return (first != second).sum(1)


def frequencies(values, num):
    return np.bincount(values, minlength=num + 1) / len(values)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # 1 or k with equal chance; k = -1 draws k itself from 1 … 3
        (-1, [0, 1 / 2 + 1 / 6, 1 / 6, 1 / 6, 0]),
        (1, [0, 1, 0, 0, 0]),
        (3, [0, 1 / 2, 0, 1 / 2, 0]),
        (4, [0, 1 / 2, 0, 0, 1 / 2]),
    ],
)
def test_weak_pairs_resample_one_or_k_factors(changed, expected):
    found = frequencies(changes(*pairs(WeakPairs(changed=changed, distinct=True))), 4)
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_weak_pairs_may_resample_the_old_class_as_in_the_reference():
    first, second = pairs(WeakPairs(changed=1))
    unchanged = (changes(first, second) == 0).mean()
    assert unchanged == pytest.approx(np.mean([1 / 3, 1 / 6, 1 / 9, 1 / 5]), abs=0.01)
    moved = first[:, 2] != second[:, 2]
    assert moved.mean() == pytest.approx(1 / 4 * 8 / 9, abs=0.01)
    assert stats.chisquare(np.bincount(second[moved, 2])).pvalue > 1e-3


@pytest.mark.parametrize(
    ("changed", "expected"), [(-1, [0, 1 / 3, 1 / 3, 1 / 3, 0]), (2, [0, 0, 1, 0, 0])]
)
def test_uniform_transitions_change_exactly_k_factors(changed, expected):
    first, second = pairs(UniformTransitions(changed=changed))
    np.testing.assert_allclose(frequencies(changes(first, second), 4), expected, atol=0.01)
    step = (second[:, 2] - first[:, 2]) % 9
    assert stats.chisquare(np.bincount(step)[1:]).pvalue > 1e-3


def laplace(size, old, rate):
    law = np.exp(-np.abs(np.arange(size) - old) * rate / np.log(size))
    return law / law.sum()


@pytest.mark.parametrize("rate", [1.0, 4.0])
def test_laplace_transitions_follow_their_distribution(rate):
    first, second = pairs(LaplaceTransitions(rate=rate), num=200_000)
    assert (first[:, 0] == second[:, 0]).all()
    assert (changes(first, second) > 0).all()
    moving = {1: 6, 2: 9, 3: 5}
    for k, size in moving.items():
        for old in (0, size // 2):
            stay = {
                j: np.mean([laplace(s, o, rate)[o] for o in range(s)]) for j, s in moving.items()
            }
            law = laplace(size, old, rate)
            others_stay = np.prod([stay[j] for j in moving if j != k])
            forced = law.copy()
            forced[old] = 0
            expected = law.copy()
            expected[old] = law[old] * (1 - others_stay) + law[old] * others_stay * 2 / 3
            expected += law[old] * others_stay / 3 * forced / forced.sum()
            found = np.bincount(second[first[:, k] == old, k], minlength=size)
            np.testing.assert_allclose(found / found.sum(), expected, atol=0.012)


def test_impossible_rules_are_errors():
    with pytest.raises(DataError, check=about("changed", 5)):
        pairs(WeakPairs(changed=5))
    with pytest.raises(DataError, check=about("grid", ("kind",))):
        pairs(LaplaceTransitions(), Grid((Factor("kind", "ab", categorical=True),)))


def test_neighbours_are_next_in_time_with_other_factors_unchanged():
    grid = Grid((Factor("film", "ab", categorical=True), Factor("time", range(5))))
    first, second = pairs(Neighbours(), grid, 2_000)
    assert (first[:, 0] == second[:, 0]).all()
    last = first[:, 1] == 4
    assert (second[~last, 1] == first[~last, 1] + 1).all()
    assert (second[last, 1] == 3).all()
    assert last.any()


def test_neighbours_need_time():
    with pytest.raises(UnweaveError, check=about("factor", "time")):
        pairs(Neighbours())
    one, other = pairs(Neighbours(factor="turn"))
    assert (changes(one, other) == 1).all()
    with pytest.raises(DataError, check=about("time", 1)):
        pairs(Neighbours(), Grid((Factor("time", [0]),)))


def test_transition_rules_are_found_by_name():
    assert transition_rule("laplace") == LaplaceTransitions()
    with pytest.raises(UnweaveError, check=about("kind of transitions", "neighbors")):
        transition_rule("neighbors")
