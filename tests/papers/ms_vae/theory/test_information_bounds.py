"""The discriminator output is the gap of two bounds, to 1e-12 on random tables."""

import math

import numpy as np
import pytest

from tests.raising import about
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
    upper, lower, gap = [], [], []
    for (x, c), g in np.ndenumerate(generated):
        if g > 0:
            p_x, g_c = math.fsum(data[x]), math.fsum(generated[:, c])
            upper.append(g * math.log(g / g_c / p_x))
            lower.append(g * math.log(data[x, c] / p_x / g_c))
            gap.append(-g * math.log(data[x, c] / g))
    return math.fsum(upper), math.fsum(lower), math.fsum(gap)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_the_gap_of_the_bounds_is_the_discriminator_output(seed, sparse):
    data, generated = tables(seed, sparse=sparse)
    information, *rest = information_bounds(data, generated)
    upper, lower, gap = rest
    assert abs(upper - lower - gap) < 1e-12
    assert np.abs(np.subtract(rest, by_expectations(data, generated))).max() < 1e-12
    assert lower - 1e-12 < information < upper + 1e-12
    assert gap > 0.01


def test_the_information_is_that_of_the_generated_table():
    _, generated = tables(3)
    x, c = generated.sum(1), generated.sum(0)
    entropies = [-(p * np.log(p)).sum() for p in (x, c, generated)]
    found = information_bounds(tables(4)[0], generated).information
    assert found == pytest.approx(entropies[0] + entropies[1] - entropies[2], abs=1e-12)


def test_the_gap_is_zero_where_both_are_the_same():
    data, _ = tables(0)
    information, upper, lower, gap = information_bounds(data, data)
    assert upper == pytest.approx(information, abs=1e-14)
    assert lower == pytest.approx(information, abs=1e-14)
    assert gap == 0


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
    ("data", "generated", "subject", "value"),
    [
        ([[0.5, 0.5]], [[0.5], [0.5]], "generated", (2, 1)),
        ([[1.0, 0.0]], [[0.5, 0.5]], "data", 0),
        ([[0.5, 0.6]], [[0.5, 0.5]], "data", (1, 2)),
        ([[0.5, 0.5]], [[1.5, -0.5]], "generated", (1, 2)),
        ([0.5, 0.5], [0.5, 0.5], "data", (2,)),
    ],
)
def test_invalid_tables_are_rejected(data, generated, subject, value):
    with pytest.raises(TheoryError, check=about(subject, value)):
        information_bounds(data, generated)
