"""The correlated joint distribution: marginals, correlation and maximum entropy."""

import numpy as np
import pytest

from tests.raising import about
from unweave.data.weights import correlated_joint, cumulate
from unweave.errors import DataError


def correlation(joint):
    rows, columns = joint.shape
    i, j = np.arange(rows) - (rows - 1) / 2, np.arange(columns) - (columns - 1) / 2
    return (i @ joint @ j) / np.sqrt((i**2 @ joint.sum(1)) * (j**2 @ joint.sum(0)))


@pytest.mark.parametrize("sizes", [(2, 2), (3, 40), (32, 32), (6, 15)])
@pytest.mark.parametrize("target", [-0.7, -0.2, 0.0, 0.35, 0.8])
def test_marginals_are_uniform_and_the_correlation_is_as_given(sizes, target):
    joint = correlated_joint(*sizes, target)
    np.testing.assert_allclose(joint.sum(1), 1 / sizes[0], rtol=1e-6)
    np.testing.assert_allclose(joint.sum(0), 1 / sizes[1], rtol=1e-6)
    assert correlation(joint) == pytest.approx(target, abs=1e-6)


def test_two_by_two_is_known_in_closed_form():
    np.testing.assert_allclose(
        correlated_joint(2, 2, 0.5), [[0.375, 0.125], [0.125, 0.375]], atol=1e-7
    )


def test_the_joint_distribution_has_maximum_entropy():
    joint = correlated_joint(5, 4, 0.6)
    rng = np.random.default_rng(0)
    constraints = []
    i, j = np.meshgrid(np.arange(5), np.arange(4), indexing="ij")
    constraints += [(i == k).ravel() for k in range(5)] + [(j == k).ravel() for k in range(4)]
    basis, _ = np.linalg.qr(np.stack([*constraints, (i * j).ravel()]).T.astype(float))
    entropy = -(joint * np.log(joint)).sum()
    for _ in range(200):
        change = rng.normal(size=20)
        change -= basis @ (basis.T @ change)
        other = joint + 0.5 * joint.min() * (change / np.abs(change).max()).reshape(5, 4)
        assert correlation(other) == pytest.approx(0.6, abs=1e-6)
        assert -(other * np.log(other)).sum() < entropy


@pytest.mark.parametrize("target", [1.2, -1.2, 0.97])
def test_an_impossible_correlation_names_the_largest_possible(target):
    with pytest.raises(DataError, check=about("correlation", target)):
        correlated_joint(3, 40, target)


def test_images_of_weight_zero_are_never_sampled():
    table = cumulate(np.array([0.0, 0.1, 0.0, 0.3, 0.0])).numpy()
    assert table.tolist() == pytest.approx([0, 0.25, 0.25, 1, 1])
    for u, expected in [(0.0, 1), (0.2499, 1), (0.25, 3), (1 - 2**-53, 3)]:
        assert np.searchsorted(table, u, side="right") == expected
