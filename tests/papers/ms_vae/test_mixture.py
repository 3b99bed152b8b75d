"""Mixtures of normals compared with scikit-learn, and their distributions."""

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from tests.raising import about
from unweave.errors import DataError
from unweave.papers.ms_vae.mixture import Mixture, fit, start, update
from unweave.random import Stream


@pytest.fixture(scope="module")
def points():
    """Three clouds of different sizes in five dimensions, not all apart."""
    rng = np.random.default_rng(0)
    clouds = [
        rng.normal(centre, spread, (num, 5))
        for centre, spread, num in ((-2, 0.5, 200), (0, 1.5, 500), (1.5, 0.8, 300))
    ]
    return torch.as_tensor(np.concatenate(clouds))


def test_density_is_the_weighted_sum_of_normals():
    rng = np.random.default_rng(1)
    weights, means, stds = (
        np.array([0.2, 0.8]),
        rng.normal(size=(2, 3)),
        rng.uniform(0.3, 2, (2, 3)),
    )
    x = rng.normal(size=(7, 3))
    normals = [
        multivariate_normal(m, np.diag(s**2)).pdf(x) for m, s in zip(means, stds, strict=True)
    ]
    mixture = Mixture(*map(torch.as_tensor, (weights, means, stds)))
    both = weights[:, None] * np.array(normals)
    np.testing.assert_allclose(mixture.log_density(torch.as_tensor(x)), np.log(both.sum(0)))
    shares = (both / both.sum(0)).T
    np.testing.assert_allclose(mixture.responsibilities(torch.as_tensor(x)), shares)
    kl = (shares * np.log(shares / weights)).sum(1)
    np.testing.assert_allclose(mixture.kl_to_weights(torch.as_tensor(x)), kl, atol=1e-12)


@pytest.mark.parametrize("updates", [1, 7])
def test_updates_are_those_of_scikit_learn_from_the_same_start(points, updates):
    mixture = first = start(points, 3)
    for _ in range(updates):
        mixture = update(mixture, points)
    reference = GaussianMixture(
        3,
        covariance_type="diag",
        tol=0,
        reg_covar=0,
        max_iter=updates,
        weights_init=first.weights.numpy(),
        means_init=first.means.numpy(),
        precisions_init=first.stds.numpy() ** -2,
        init_params="random_from_data",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged, on purpose
        reference.fit(points.numpy())
    np.testing.assert_allclose(mixture.weights, reference.weights_, rtol=1e-6)
    np.testing.assert_allclose(mixture.means, reference.means_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(mixture.stds**2, reference.covariances_, rtol=1e-6)
    np.testing.assert_allclose(
        mixture.log_density(points), reference.score_samples(points.numpy()), rtol=1e-7
    )


def test_every_update_raises_the_likelihood(points):
    mixture = start(points, 4)
    nats = [mixture.log_density(points).mean()]
    for _ in range(15):
        mixture = update(mixture, points)
        nats.append(mixture.log_density(points).mean())
    assert (np.diff(nats) > 0).all()
    assert nats[-1] - nats[0] > 0.5


def test_the_start_has_equal_weights_and_standard_deviations_of_1(points):
    first = start(points, 4)
    assert first.weights.tolist() == [0.25] * 4
    assert (first.stds == 1).all()
    nearest = torch.cdist(points, first.means).argmin(1)
    for k in range(4):  # a fixed point of k-means, nearly: it stops early
        assert (points[nearest == k].mean(0) - first.means[k]).abs().max() < 0.2


def test_standard_deviations_stay_at_a_hundredth_and_above():
    x = torch.tensor([[0.0, 1.0], [0.0, 2.0], [5.0, 3.0], [5.0, 4.0]])
    mixture = fit(x, 2, epochs=5, progress=False)
    assert (mixture.stds[:, 0] == 0.01).all()
    assert mixture.log_density(x).isfinite().all()


def test_samples_have_the_moments_of_the_mixture():
    means = torch.tensor([[-3.0, 0.0], [3.0, 1.0]])
    mixture = Mixture(torch.tensor([0.3, 0.7]), means, torch.tensor([[0.5, 1.0], [2.0, 0.1]]))
    x = mixture.sample(40_000, seed=3)
    middle = torch.tensor([0.3 * -3 + 0.7 * 3, 0.7])
    spread = torch.tensor(
        [0.3 * (0.25 + 9) + 0.7 * (4 + 9) - 1.2**2, 0.3 * 1 + 0.7 * (0.01 + 1) - 0.49]
    )
    assert (x.mean(0) - middle).abs().max() < 0.06
    assert (x.var(0) / spread - 1).abs().max() < 0.03
    assert torch.equal(x[:9000], mixture.sample(9000, seed=3))


def test_components_are_sampled_by_their_probability():
    mixture = Mixture(torch.tensor([0.1, 0.9]), torch.zeros(2, 1), torch.ones(2, 1))
    x = torch.cat([torch.zeros(20_000, 1)])
    drawn = mixture.draw(x, Stream(0, "test"))
    assert drawn.float().mean() == pytest.approx(0.9, abs=0.01)
    apart = Mixture(torch.tensor([0.5, 0.5]), torch.tensor([[-9.0], [9.0]]), torch.ones(2, 1))
    sure = torch.tensor([-9.0, 9.0]).repeat(50)[:, None]
    assert apart.draw(sure, Stream(0, "test")).tolist() == [0, 1] * 50
    assert apart.kl_to_weights(sure).tolist() == pytest.approx([np.log(2)] * 100)


def test_too_few_points_are_rejected():
    with pytest.raises(DataError, check=about("num_components", 3)):
        fit(torch.zeros(2, 4), 3)
