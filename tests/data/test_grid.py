"""Index ↔ factors arithmetic."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.raising import about
from unweave.data.grid import Factor, Grid, Labels
from unweave.errors import DataError, UnknownNameError


def make(sizes):
    return Grid(tuple(Factor(f"f{k}", list(range(size))) for k, size in enumerate(sizes)))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_the_last_factor_changes_fastest(sizes):
    grid = make(sizes)
    every = np.array(list(itertools.product(*map(range, sizes))))
    np.testing.assert_array_equal(grid.factors(np.arange(len(grid))), every)
    np.testing.assert_array_equal(grid.index(every), np.arange(len(every)))


def test_any_shape_of_indices_and_tensors_stay_tensors():
    grid = make([3, 4, 5])
    index = np.arange(60).reshape(4, 5, 3)
    factors = grid.factors(index)
    assert factors.shape == (4, 5, 3, 3)
    np.testing.assert_array_equal(grid.index(factors), index)
    tensor = torch.from_numpy(index)
    assert torch.equal(grid.factors(tensor), torch.from_numpy(factors))
    assert torch.equal(grid.index(grid.factors(tensor)), tensor)
    assert grid.factors(7).tolist() == [0, 1, 2]


def test_where_marks_the_named_classes_only():
    grid = make([3, 4, 5])
    mask = grid.where({"f0": 1, "f2": [0, 4]})
    factors = grid.factors(mask.nonzero()[0])
    assert mask.sum() == 4 * 2
    assert set(factors[:, 0]) == {1}
    assert set(factors[:, 2]) == {0, 4}


@pytest.mark.parametrize(
    ("call", "subject", "value"),
    [
        (lambda grid: grid.factors([60]), "index", None),
        (lambda grid: grid.factors([-1]), "index", None),
        (lambda grid: grid.factors([0.5]), "values", np.float64),
        (lambda grid: grid.index([[0, 4, 0]]), "f1", [4]),
        (lambda grid: grid.index([[0, 0]]), "factors", (1, 2)),
        (lambda grid: grid.where({"f1": 9}), "f1", [9]),
        (lambda grid: grid.index(torch.zeros(1, 3)), "values", torch.float32),
    ],
)
def test_values_outside_the_grid_are_errors(call, subject, value):
    with pytest.raises(DataError, check=about(subject, value)):
        call(make([3, 4, 5]))


def test_an_unknown_factor_gets_a_suggestion():
    grid = Grid((Factor("orientation", [0, 1]), Factor("scale", [0, 1])))
    with pytest.raises(UnknownNameError, check=about("factor", "orientatoin")):
        grid.column("orientatoin")


def test_labels_look_up_rows():
    classes = np.array([[0, 1], [1, 0], [1, 1]])
    labels = Labels((Factor("a", ["x", "y"]), Factor("b", [0, 1])), classes)
    np.testing.assert_array_equal(labels.factors([2, 0]), classes[[2, 0]])
    assert labels.factors(torch.tensor([1])).tolist() == [[1, 0]]
