import numpy as np
import pytest

from unweave.errors import DataError
from unweave.quality import kid_of_features, squared_mmd


def literal(x, y):
    """The definition, pair by pair."""

    def kernel(a, b):
        return (sum(p * q for p, q in zip(a, b, strict=True)) / len(a) + 1) ** 3

    n = len(x)
    value = 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                value += (kernel(x[i], x[j]) + kernel(y[i], y[j])) / (n * (n - 1))
            value -= 2 * kernel(x[i], y[j]) / n**2
    return value


def features(seed, count, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1, (count, 5))


def test_the_discrepancy_is_the_literal_double_loop():
    x, y = features(0, 7), features(1, 7, 0.5)
    assert squared_mmd(x, y) == pytest.approx(literal(x, y), rel=1e-12)


def test_it_has_no_bias():
    """Two halves of one law: the mean is zero within its error, as a biased one's would not be."""
    values = [squared_mmd(features(2 * k, 6), features(2 * k + 1, 6)) for k in range(2_000)]
    assert abs(np.mean(values)) < 3 * np.std(values) / np.sqrt(2_000)


def test_all_images_in_one_subset_give_the_discrepancy_itself():
    x, y = features(0, 9), features(1, 9, 1.0)
    found = kid_of_features(x, y, subsets=3, subset_size=9)
    assert found.mean == pytest.approx(squared_mmd(x, y), rel=1e-12)
    assert found.std == pytest.approx(0, abs=1e-12)


def test_subsets_are_drawn_by_the_seed_without_replacement():
    x, y = features(0, 12), features(1, 15, 1.0)
    found = kid_of_features(x, y, subsets=400, subset_size=4)
    assert found == kid_of_features(x, y, subsets=400, subset_size=4, seed=0)
    assert found != kid_of_features(x, y, subsets=400, subset_size=4, seed=1)
    whole = np.mean([squared_mmd(x, y[[*range(k), *range(k + 3, 15)]]) for k in range(12)])
    assert found.mean == pytest.approx(whole, abs=3 * found.std / np.sqrt(400))


@pytest.mark.parametrize("size", [1, 13])
def test_subsets_larger_than_the_sets(size):
    with pytest.raises(DataError, match=f"from 2 to 12 images, .*subset_size={size}"):
        kid_of_features(features(0, 12), features(1, 20), subset_size=size)
