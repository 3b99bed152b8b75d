"""Bins, entropies and mutual information."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import mutual_info_score

from unweave.metrics.tools.discretise import bins, contingency, entropy, mutual_information


def test_bins_equal_reference(golden):
    codes = golden.train[0]
    for column, found in zip(codes.T, bins(codes).T, strict=True):
        edges = np.histogram(column, 20)[1][:-1]
        assert (np.digitize(column, edges) - 1 == found).all()


def test_bins_by_hand():
    codes = np.array([[0.0, 5.0], [0.5, 5.0], [0.499, 5.0], [1.0, 5.0]])
    assert bins(codes, 2).tolist() == [[0, 1], [1, 1], [0, 1], [1, 1]]


def test_edges_have_the_precision_of_the_codes():
    edges = np.histogram(np.array([0, 0.7], np.float32), 20)[1]
    assert bins(edges[:, None]).ravel().tolist() == [*range(20), 19]
    assert bins(edges[:, None].astype(np.float64)).ravel().tolist() != [*range(20), 19]


def test_fewer_numbers_than_bins():
    codes = np.array([[1.0], [np.nextafter(1.0, 2)], [1.0]])
    assert bins(codes).ravel().tolist() == [0, 1, 0]


def test_information_equals_scikit_learn(golden):
    codes, factors = golden.train
    classes = bins(codes)
    found = mutual_information(classes, factors)
    expected = [[mutual_info_score(f, c) for f in factors.T] for c in classes.T]
    assert found.shape == (10, 5)
    assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_information_by_hand():
    a = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    b = np.array([[0, 7], [0, 7], [1, 7], [1, 7]])
    assert_allclose(mutual_information(a, b), [[np.log(2), 0], [0, 0]])


def test_independent_variables_have_exactly_no_information():
    grid = np.stack(np.unravel_index(np.arange(3 * 7 * 11), (3, 7, 11)), 1)
    found = mutual_information(grid, grid)
    assert (found[~np.eye(3, dtype=bool)] == 0).all()


def test_contingency():
    assert contingency(np.array([0, 2, 2]), np.array([1, 0, 1])).tolist() == [
        [0, 1],
        [0, 0],
        [1, 1],
    ]


@pytest.mark.parametrize("shares", [[1], [0.5, 0.5], [0.25, 0, 0.75]])
def test_entropy(shares):
    column = np.repeat(np.arange(len(shares)), (np.array(shares) * 8).astype(int))
    present = np.array([p for p in shares if p > 0])
    assert_allclose(entropy(column[:, None]), [-(present * np.log(present)).sum()])
