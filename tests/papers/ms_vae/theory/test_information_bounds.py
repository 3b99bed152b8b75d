"""What a discriminator measures is the gap of two bounds, on random tables to 1e-12."""

import math

import numpy as np
import pytest

from unweave.papers.ms_vae.theory.information_bounds import information_bounds
from unweave.papers.theory import TheoryError


def tables(seed, images=7, causes=5, sparse=False):
    rng = np.random.default_rng(seed)
    data, generated = rng.dirichlet(np.full(images * causes, 0.7), 2).reshape(2, images, causes)
    if sparse:
        generated[rng.random(generated.shape) < 0.4] = 0
    return data, generated / generated.sum()


def by_expectations(data, generated):
    """The bounds as expectations, entry by entry: log p_θ(x|c) / p(x) and log p(c|x) / p_θ(c)."""
    upper, lower, told_apart = [], [], []
    for (x, c), g in np.ndenumerate(generated):
        if g > 0:
            p_x, g_c = math.fsum(data[x]), math.fsum(generated[:, c])
            upper.append(g * math.log(g / g_c / p_x))
            lower.append(g * math.log(data[x, c] / p_x / g_c))
            told_apart.append(-g * math.log(data[x, c] / g))
    return math.fsum(upper), math.fsum(lower), math.fsum(told_apart)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_the_gap_of_the_bounds_is_what_the_discriminator_says(seed, sparse):
    data, generated = tables(seed, sparse=sparse)
    information, *rest = information_bounds(data, generated)
    upper, lower, told_apart = rest
    assert abs(upper - lower - told_apart) < 1e-12
    assert np.abs(np.subtract(rest, by_expectations(data, generated))).max() < 1e-12
    assert lower - 1e-12 < information < upper + 1e-12
    assert told_apart > 0.01


def test_the_information_is_that_of_the_generated_table():
    _, generated = tables(3)
    x, c = generated.sum(1), generated.sum(0)
    entropies = [-(p * np.log(p)).sum() for p in (x, c, generated)]
    found = information_bounds(tables(4)[0], generated).information
    assert found == pytest.approx(entropies[0] + entropies[1] - entropies[2], abs=1e-12)


def test_nothing_is_told_apart_where_both_are_the_same():
    data, _ = tables(0)
    information, upper, lower, told_apart = information_bounds(data, data)
    assert upper == pytest.approx(information, abs=1e-14)
    assert lower == pytest.approx(information, abs=1e-14)
    assert told_apart == 0


def test_each_bound_is_tight_for_its_own_reason():
    """Images as in the data leave the upper bound; causes as in the data leave the lower one."""
    data, generated = tables(1)
    same_images = generated / generated.sum(1, keepdims=True) * data.sum(1, keepdims=True)
    bounds = information_bounds(data, same_images)
    assert bounds.upper == pytest.approx(bounds.information, abs=1e-13)
    assert bounds.information - bounds.lower > 0.01
    same_causes = data / data.sum(1, keepdims=True) * generated.sum(1, keepdims=True)
    bounds = information_bounds(data, same_causes)
    assert bounds.lower == pytest.approx(bounds.information, abs=1e-13)
    assert bounds.upper - bounds.information > 0.01


@pytest.mark.parametrize(
    ("data", "generated", "words"),
    [
        ([[0.5, 0.5]], [[0.5], [0.5]], "the same shape"),
        ([[1.0, 0.0]], [[0.5, 0.5]], "must be possible"),
        ([[0.5, 0.6]], [[0.5, 0.5]], "data must be a table"),
        ([[0.5, 0.5]], [[1.5, -0.5]], "generated must be a table"),
        ([0.5, 0.5], [0.5, 0.5], "data must be a table"),
    ],
)
def test_tables_that_are_none_are_refused(data, generated, words):
    with pytest.raises(TheoryError, match=words):
        information_bounds(data, generated)
