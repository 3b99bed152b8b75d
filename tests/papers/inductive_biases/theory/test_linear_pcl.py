"""Linear PCL: sources, whitening, and robustness to modifications."""

import numpy as np
import pytest

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.papers.inductive_biases.theory import linear_pcl


def test_sources_are_independent_and_autocorrelated():
    s = linear_pcl.sources(50_000, 3, seed=1)
    assert s.mean(0) == pytest.approx(0, abs=1e-9)
    assert s.std(0) == pytest.approx(1)
    assert np.corrcoef(s.T)[np.triu_indices(3, 1)] == pytest.approx(0, abs=0.03)
    remembered = (s[1:] * s[:-1]).mean(0)
    assert remembered == pytest.approx(0.7, abs=0.02)
    moved = s[1:] - 0.7 * s[:-1]
    kurtosis = (moved**4).mean(0) / (moved**2).mean(0) ** 2
    assert kurtosis == pytest.approx(6, abs=0.5)  # Laplace's; a normal one has 3


def test_whitened_components_are_uncorrelated_and_in_order():
    x = np.random.default_rng(0).normal(size=(5_000, 4)) * [1, 3, 2, 0.01] + 5
    white = linear_pcl.whitened(x, 3)
    assert white.T @ white / len(x) == pytest.approx(np.eye(3), abs=1e-9)
    assert np.abs(np.corrcoef(white.T, x.T)[:3, 3:]).argmax(1).tolist() == [1, 2, 0]


def test_pcl_finds_factors_with_and_without_modification_and_components_do_not():
    table = linear_pcl.contrastive(seeds=[1], count=20_000).set_index("delta")
    assert (table["pcl"] > 0.999).all()
    assert table["pca"][0.0] > 0.98
    assert 0.8 - 0.015 < table["pca"][0.5] < 0.83 + 0.015


def test_a_single_time_point_is_rejected():
    with pytest.raises(UnweaveError, check=about("moments", 1)):
        linear_pcl.sources(1)
