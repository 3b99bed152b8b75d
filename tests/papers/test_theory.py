"""Measurements of learning trajectories on weights with known answers."""

import numpy as np
import pytest

from unweave.papers.theory import Ascent


def trajectory(*weights):
    return Ascent(np.array(weights, float), np.zeros(len(weights)))


def hexagon(*norms):
    angles = np.deg2rad([0, 60, 120])
    return np.array(norms) * np.stack([np.cos(angles), np.sin(angles)])


def test_equal_components_60_degrees_apart():
    found = trajectory(hexagon(3, 3, 3))
    assert found.norms[0] == pytest.approx([3, 3, 3])
    assert found.orthogonality[0] == pytest.approx(0.25)
    assert found.angle[0] == pytest.approx(60)
    assert found.kept[0] == 3


def test_orthogonality_is_weighted_by_norms():
    """w₂ is orthogonal to both others, w₃ half as long as w₁ and parallel: ½ / (1 + ½ + ½)."""
    found = trajectory([[1, 0, 0.5], [0, 1, 0]])
    assert found.orthogonality[0] == pytest.approx(0.25)
    found = trajectory([[1, 0, 1e-3], [0, 2, 0]])
    assert found.orthogonality[0] == pytest.approx(1e-3 / (2 + 1e-3 + 2e-3))


def test_angle_is_between_the_lines_of_the_two_longest():
    weights = hexagon(3, 0.1, 2)  # the two longest are 120 degrees apart, as lines 60
    assert trajectory(weights).angle[0] == pytest.approx(60)
    assert trajectory([[1, 0, 0.5], [0, 2, 0.5]]).angle[0] == pytest.approx(90)


def test_pruned_is_below_a_twentieth_of_the_longest():
    found = trajectory(
        hexagon(4, 4, 4), hexagon(4, 4, 0.201), hexagon(4, 4, 0.199), hexagon(4, 0.1, 0)
    )
    assert found.kept.tolist() == [3, 3, 2, 1]
    assert found.shares[1].min() == pytest.approx(0.05025)
    assert found.pruned_after(2) == 2
    assert found.pruned_after(1) == 3
    assert found.pruned_after(0) is None


def test_all_weights_may_be_zero():
    found = trajectory(np.zeros((2, 3)))
    assert found.kept.tolist() == [0]
    assert found.orthogonality.tolist() == [0]
    assert np.isfinite(found.angle).all()
