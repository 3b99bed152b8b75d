"""The comparison of a model with PCA and ICA: numbers against scikit-learn, and the answer."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.decomposition import PCA

import unweave as uw
from unweave.report.pca import AgainstPCA, ErrorRow, FactorRow, against_pca


@pytest.fixture(scope="module")
def found(fleet, data):
    return against_pca(fleet[0], data, 2)


def test_errors_are_those_of_the_model_and_of_principal_components(found, fleet, data):
    images = np.asarray(data[:]).reshape(96, -1) / 255
    mean, few, full, model = found.errors
    assert mean.error == pytest.approx(images.var(0).mean(), rel=1e-4)
    assert mean.explained == pytest.approx(0)
    for row, count in ((few, 2), (full, 4)):
        pca = PCA(count).fit(images)
        rebuilt = pca.inverse_transform(pca.transform(images))
        assert row.error == pytest.approx(np.square(rebuilt - images).mean(), rel=1e-4)
        assert row.explained == pytest.approx(pca.explained_variance_ratio_.sum(), rel=1e-4)
        assert row.name == f"PCA with {count} components"
    decoded = fleet[0].decode(fleet[0].encode(data)[0]).reshape(96, -1)
    assert model.error == pytest.approx(np.square(decoded - images).mean(), rel=1e-4)
    assert "2 clear latents" in model.name


def test_factors_have_the_rank_correlation_of_the_closest_latent(found, fleet, data):
    codes, factors = fleet[0].encode(data)[0], data.factors(np.arange(96))
    components = PCA(4).fit_transform(np.asarray(data[:]).reshape(96, -1))
    assert [row.name for row in found.factors] == ["shape", "scale", "x", "y"]
    for k, row in enumerate(found.factors):
        of_model, of_pca = (
            np.array([abs(spearmanr(z, factors[:, k]).statistic) for z in each.T])
            for each in (codes, components)
        )
        assert row.model == pytest.approx(of_model.max(), abs=1e-3)
        assert row.pca == pytest.approx(of_pca.max(), abs=1e-3)
        assert row.latent == f"z{of_model.argmax()}"
        assert 0 <= row.ica <= 1


def test_without_factors_only_reconstructions_are_compared(fleet, data):
    plain = uw.data.load(np.asarray(data[:]))
    found = against_pca(fleet[0], plain, 4)
    assert found.factors == []
    assert [row.name for row in found.errors][:-1] == ["the mean image", "PCA with 4 components"]


def test_the_answer_follows_from_the_numbers():
    rows = [FactorRow("x", 0.9, 0.5, 0.6, "z0"), FactorRow("y", 0.8, 0.6, 0.6, "z1")]
    errors = [ErrorRow("the mean image", 1, 0), ErrorRow("PCA with 2 components", 0.5, 0.5)]
    errors += [ErrorRow("the model", 0.1, 0.9)]
    better = AgainstPCA(rows, 0, errors, 10)
    assert "more closely (mean 0.85, PCA 0.55, ICA 0.60)" in better.answer
    assert not better.answer.startswith("Here")
    worse = replace(better, factors=[replace(rows[0], ica=1.0), replace(rows[1], ica=1.0)])
    assert worse.answer.startswith("Here, PCA or ICA is the better choice")
    same = replace(better, factors=[replace(rows[0], pca=0.9), replace(rows[1], pca=0.8)])
    assert "does as well" in same.answer
    plain = replace(better, factors=[])
    assert "better than PCA with 2 components (90% and 50%" in plain.answer
    lower = replace(plain, errors=[*errors[:2], ErrorRow("the model", 0.6, 0.4)])
    assert lower.answer.startswith("Here, PCA with 2 components reconstructs the images better")
    level = replace(plain, errors=[*errors[:2], ErrorRow("the model", 0.5, 0.51)])
    assert "as well as" in level.answer
