"""Known mistakes of other implementations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from unweave.metrics import dci, factor_vae, information_matrix, mig


def factors_of(*sizes, rows=2000):
    return np.random.default_rng(0).integers(0, sizes, (rows, len(sizes)))


def test_factor_vae_prunes_inactive_codes():
    """With a threshold of 0, a code of tiny variance would vote and make this 1."""
    factors = factors_of(5, 5)
    codes = factors * np.array([1.0, 0.02])
    assert 0.001 < codes[:, 1].std() < 0.05
    assert_allclose(factor_vae(codes, factors)["factor_vae"], 0.5, atol=0.03)
    assert factor_vae(codes, factors, threshold=0)["factor_vae"] == 1


def test_factor_vae_counts_the_active_codes():
    """The count excludes inactive codes."""
    factors = factors_of(5, 5)
    codes = np.concatenate([factors, 0.02 * factors, np.zeros((2000, 3))], 1)
    assert factor_vae(codes, factors)["active"] == 2


def test_mig_tables_are_transposed_not_reshaped():
    """Reading a table [K, d] as [d, K] mixes up codes and factors."""
    factors = factors_of(3, 4, 5)
    codes = np.concatenate([factors[:, [1]], np.zeros((2000, 3)), factors[:, [2, 0]]], 1)
    table = information_matrix(codes, factors)
    assert table.shape == (6, 3)
    assert table[[0, 4, 5]].argmax(1).tolist() == [1, 2, 0]
    assert (table[1:4] == 0).all()
    assert_allclose(table[[0, 4, 5], [1, 2, 0]], np.log([4, 5, 3]), atol=0.01)
    assert mig(codes, factors)["mig"] > 0.98


@pytest.mark.parametrize("engine", ["fast", "sklearn"])
def test_trees_are_seeded(engine):
    """Ties between equal codes are random, which shows if the random state is not fixed."""
    factors = factors_of(2, 2, rows=300)
    noisy = factors + np.random.default_rng(1).normal(0, 0.8, factors.shape)
    codes = noisy[:, [0, 0, 1, 1]]
    first = dci(codes, factors, seed=3, engine=engine)
    assert dci(codes, factors, seed=3, engine=engine) == first
    assert dci(codes, factors, seed=4, engine=engine) != first
