"""Minimising: several arrays at once, to the last digits."""

import numpy as np
import pytest

from unweave.papers.inductive_biases.theory.minimising import minimise


def test_the_minimum_of_a_valley_is_found_to_many_digits():
    def rosenbrock(x, y):
        return ((1 - x) ** 2).sum() + 100 * ((y - x**2) ** 2).sum()

    x, y = minimise(rosenbrock, [np.full((2, 1), -1.2), np.ones((2, 1))])
    assert x.shape == y.shape == (2, 1)
    assert np.stack([x, y]) == pytest.approx(1, abs=1e-5)
