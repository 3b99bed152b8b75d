"""Tables of codes and factors, and sampling of rows."""

import numpy as np
import pandas as pd
import pytest
import torch

from tests.raising import about
from unweave.metrics.base import MetricError, table, train_and_test


def grid_of(*sizes):
    return np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), 1)


def generator():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 3, 7],
        [0.3, 0.1, 0.3, 0.7],
        [-5, -9, -5, 2],
        [1e12, -1e12, 1e12, 1e13],
        [2**60 + 1, 2**60, 2**60 + 1, 2**60 + 2],
        [1e-320, 0.0, 1e-320, 1.0],
    ],
)
def test_values_become_ranks(values):
    assert table(np.zeros(4), values).factors.ravel().tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32, np.float32])
def test_types_of_factors(dtype):
    assert table(np.zeros(3), np.array([1, 0, 1], dtype)).factors.ravel().tolist() == [1, 0, 1]


def test_factors_without_variation_are_left_out():
    rows = table(np.zeros(3), [[1, 5, 0], [1, 6, 1], [1, 7, 1]])
    assert rows.columns == (1, 2)
    assert rows.factors.tolist() == [[0, 0], [1, 1], [2, 1]]
    assert rows.sizes.tolist() == [3, 2]
    with pytest.raises(MetricError, check=about("factors", None)):
        table(np.zeros(3), np.ones((3, 2)))


def test_precision_of_codes():
    assert table(np.zeros(2, np.float32), [0, 1]).codes.dtype == np.float32
    for other in (np.float16, np.float64, int, bool):
        assert table(np.zeros(2, other), [0, 1]).codes.dtype == np.float64


def test_accepted_types_of_codes():
    codes = [[0.5, 1.0], [2.0, 3.0]]
    for given in (codes, torch.tensor(codes, requires_grad=True), pd.DataFrame(codes)):
        assert table(given, [0, 1]).codes.tolist() == codes
    assert table(torch.tensor(codes, dtype=torch.bfloat16), [0, 1]).codes.tolist() == codes


@pytest.mark.parametrize(
    ("codes", "factors", "subject", "value"),
    [
        (np.zeros((3, 2)), np.zeros((2, 1)), "factors", 2),
        (np.zeros((3, 2, 2)), np.zeros(3), "codes", [3, 2, 2]),
        (np.zeros((0, 2)), np.zeros(0), "codes", [0, 2]),
        (np.array(["a", "b"]), np.arange(2), "codes", np.dtype("U1")),
    ],
)
def test_errors(codes, factors, subject, value):
    with pytest.raises(MetricError, check=about(subject, value)):
        table(codes, factors)


def test_rows_up_to_the_protocol_number_are_used_unchanged():
    rows = table(np.arange(50.0), np.arange(50) % 2)
    assert rows.draw(generator(), 50).codes.tolist() == rows.codes.tolist()
    drawn = rows.draw(generator(), 20)
    assert len(drawn) == 20
    assert (drawn.factors.ravel() == drawn.codes.ravel() % 2).all()
    assert (rows.draw(generator(), 20).codes == drawn.codes).all()


def test_split_in_order():
    rows = table(np.arange(30.0), np.arange(30) % 2)
    learned, tested = rows.split(200, 100, generator())
    assert learned.codes.ravel().tolist() == list(range(20))
    assert tested.codes.ravel().tolist() == list(range(20, 30))


def test_split_samples_if_there_are_more_rows():
    rows = table(np.arange(301.0), np.arange(301) % 2)
    learned, tested = rows.split(200, 100, generator())
    assert (len(learned), len(tested)) == (200, 100)
    assert not (learned.codes.ravel() == np.arange(200)).all()


def test_split_shuffles_sorted_rows():
    rows = table(np.arange(300.0), np.repeat(np.arange(3), 100))
    learned, tested = rows.split(10_000, 5_000, generator())
    assert (len(learned), len(tested)) == (200, 100)
    assert set(learned.factors.ravel()) == set(tested.factors.ravel()) == {0, 1, 2}
    together = np.concatenate([learned.codes, tested.codes]).ravel()
    assert sorted(together) == list(range(300))


def test_full_grid_is_sampled():
    factors = grid_of(3, 4, 5)
    rows = table(np.arange(60.0), factors)
    assert rows.is_grid
    learned, tested = rows.split(200, 100, generator())
    assert (len(learned), len(tested)) == (200, 100)
    assert (learned.factors == factors[learned.codes.ravel().astype(int)]).all()


def test_incomplete_grids():
    factors = grid_of(3, 4)
    twice = np.concatenate([factors[:-1], factors[:1]])
    assert not table(np.zeros(12), twice).is_grid
    assert not table(np.zeros(11), factors[:-1]).is_grid
    assert table(np.zeros(12), generator().permutation(factors)).is_grid


def test_too_few_rows_to_split():
    with pytest.raises(MetricError, check=about("codes", 3)):
        table([0.0, 1.0, 2.0], [0, 1, 1]).split(1, 100, generator())


def test_explicit_test_rows():
    learned, tested = train_and_test([1.0, 2.0], [10, 30], [3.0, 4.0], [30, 20], generator())
    assert learned.codes.ravel().tolist() == [1, 2]
    assert learned.factors.ravel().tolist() == [0, 2]
    assert tested.factors.ravel().tolist() == [2, 1]


def test_errors_of_explicit_test_rows():
    with pytest.raises(MetricError, check=about("test_factors", None)):
        train_and_test([1.0], [1], [1.0], None, generator())
    with pytest.raises(MetricError, check=about("test_factors", 1)):
        train_and_test([1.0], [1], [1.0, 2.0], [1], generator())
    with pytest.raises(MetricError, check=about("test_codes", 1)):
        train_and_test([[1.0, 2.0]], [1], [[1.0]], [1], generator())
