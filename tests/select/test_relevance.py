"""Lasso weights against scikit-learn's, rank correlations against SciPy's."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler

from unweave.analysis.latents import Latents
from unweave.errors import UnknownNameError
from unweave.select.relevance import lasso_weights, relevance_rows


def test_lasso_entries_are_those_of_scikit_learn(models):
    rows = list(relevance_rows(Latents(models)))
    scaled = [StandardScaler().fit_transform(z) for z in models]
    for i, source in enumerate(scaled):
        for j, target in enumerate(scaled):
            fitted = Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(source, target)
            np.testing.assert_allclose(rows[i][:, j], np.abs(fitted.coef_.T), atol=1e-7)


def test_spearman_entries_are_those_of_scipy(models):
    models[2] = models[2].round(1)  # ties
    rows = list(relevance_rows(Latents(models), "spearman"))
    for i in range(5):
        for j in range(5):
            slow = [[abs(spearmanr(a, b).statistic) for b in models[j].T] for a in models[i].T]
            np.testing.assert_allclose(rows[i][:, j], slow, atol=1e-12)


def test_nearly_equal_predictors_converge_too():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6))
    x[:, 1] = x[:, 0] + 0.05 * rng.normal(size=300)
    x = StandardScaler().fit_transform(x)
    y = StandardScaler().fit_transform(x @ rng.normal(size=(6, 3)) + rng.normal(size=(300, 3)))
    ours = lasso_weights(x.T @ x / 300, x.T @ y / 300, alpha=0.01)
    fitted = Lasso(alpha=0.01, tol=1e-13, max_iter=1_000_000).fit(x, y)
    np.testing.assert_allclose(ours, fitted.coef_.T, atol=1e-6)


def test_uninformative_latents_tell_nothing_and_are_not_told(models, kl):
    for relevance in ("lasso", "spearman"):
        rows = np.stack(list(relevance_rows(Latents(models, kl=kl), relevance)))
        assert not rows[1, 2].any()
        assert not rows[:, :, 1, 2].any()
        assert rows[1, 1].any()


def test_an_unknown_relevance_is_named(models):
    with pytest.raises(UnknownNameError, match="lasso, spearman"):
        list(relevance_rows(Latents(models), "pearson"))
