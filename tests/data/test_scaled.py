"""Factors as numbers for networks."""

import numpy as np
import pytest

import unweave as uw
from unweave.data.scaled import scaled_factors
from unweave.errors import DataError, UnknownNameError


def small(factors=True):
    classes = np.stack(np.indices((2, 3, 4)), -1).reshape(-1, 3)
    images = np.zeros((24, 8, 8, 1), np.uint8)
    return uw.data.load(images, **({"factors": classes} if factors else {}))


def test_every_factor_has_mean_0_and_variance_1():
    data = small()
    names = data.grid.names
    scaled = scaled_factors(data, names)
    assert scaled.shape == (24, 3)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.var(0, correction=0), 1, rtol=1e-6)


def test_factors_are_chosen_by_name_and_images_by_index():
    data = small()
    names, classes = data.grid.names, data.factors(range(24))
    scaled = scaled_factors(data, [names[2], names[0]], [5, 20, 7]).numpy()
    spread = np.sqrt([(16 - 1) / 12, (4 - 1) / 12])
    expected = (classes[[5, 20, 7]][:, [2, 0]] - [1.5, 0.5]) / spread
    np.testing.assert_allclose(scaled, expected, rtol=1e-6)
    np.testing.assert_array_equal(
        scaled, scaled_factors(data.to("cpu"), [names[2], names[0]])[[5, 20, 7]]
    )


def test_a_factor_of_one_class_is_0():
    data = small()
    name = data.grid.names[1]
    assert (scaled_factors(data.slice(**{name: 1}), [name]) == 0).all()


def test_factors_must_be_known():
    with pytest.raises(UnknownNameError, match="no factor is called 'colour'"):
        scaled_factors(small(), ["colour"])
    with pytest.raises(DataError, match=r"factors of .* are not known"):
        scaled_factors(small(factors=False), ["colour"])
