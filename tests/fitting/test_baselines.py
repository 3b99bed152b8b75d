"""Baselines agree with scikit-learn's PCA, for few and for many images."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

import unweave as uw
from unweave.fitting.baselines import baselines


@pytest.mark.parametrize("count", [80, 900])  # fewer and more than the 3 × 256 values of an image
def test_errors_and_codes_are_those_of_principal_components(count):
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(count, 4)) * [4, 3, 2, 1]
    pixels = causes @ rng.normal(size=(4, 768)) + rng.normal(size=(count, 768))
    images = ((pixels - pixels.min()) / np.ptp(pixels) * 255).astype(np.uint8)
    data = uw.data.load(images.reshape(count, 16, 16, 3), name="mixtures")
    found = baselines(data, 6)
    unit = images / 255
    assert found.mean_image == pytest.approx(unit.var(0).mean(), rel=1e-4)
    for k in range(1, 7):
        pca = PCA(k, svd_solver="full").fit(unit)
        restored = pca.inverse_transform(pca.transform(unit))
        assert found.pca[k] == pytest.approx(np.square(restored - unit).mean(), rel=1e-3)
    expected = PCA(6, svd_solver="full").fit_transform(unit[found.rows])
    signs = np.sign((expected * found.codes).sum(0))
    np.testing.assert_allclose(found.codes * signs, expected, atol=2e-3)
    assert found.components(found.pca[3]) == 3
    assert found.components(0.0) == 7
    assert found.explained(found.mean_image) == 0


def test_independent_components_of_a_rotated_uniform_square():
    rng = np.random.default_rng(0)
    causes = rng.uniform(-1, 1, (1_000, 2))
    basis = np.zeros((2, 16 * 16))
    basis[0, :128], basis[1, 128:] = 60, 60
    mixed = causes @ np.array([[0.8, -0.6], [0.6, 0.8]]) * 1.2
    images = (128 + np.clip(mixed, -2, 2) @ basis).astype(np.uint8).reshape(-1, 16, 16, 1)
    found = baselines(uw.data.load(images, name="square"), 2)
    axes = np.abs(np.corrcoef(found.independent().T, causes[found.rows].T)[:2, 2:])
    assert sorted(axes.max(0)) > [0.98, 0.98]
    assert axes.min() < 0.1
