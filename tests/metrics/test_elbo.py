"""Terms of the ELBO compared with torch distributions."""

from unittest.mock import ANY

import numpy as np
import pytest
import torch
from torch.distributions import Bernoulli, Normal, kl_divergence

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.metrics import MetricError, elbo
from unweave.nets.likelihoods import learned_gaussian


@pytest.fixture
def decoded():
    rng = np.random.default_rng(0)
    return {
        "codes": rng.normal(size=(2500, 3)),
        "logvars": rng.normal(size=(2500, 3)),
        "images": rng.integers(0, 2, (2500, 4, 5, 1)).astype(np.uint8) * 255,
        "reconstructions": rng.uniform(0.01, 0.99, (2500, 4, 5, 1)),
    }


def test_terms_equal_torch(decoded):
    scores = elbo(**decoded)
    means, logvars = (torch.tensor(decoded[name]) for name in ("codes", "logvars"))
    posterior = Normal(means, (logvars / 2).exp())
    kl = kl_divergence(posterior, Normal(torch.zeros(3), torch.ones(3))).sum(1).mean()
    images = torch.tensor(decoded["images"] / 255)
    fit = Bernoulli(torch.tensor(decoded["reconstructions"])).log_prob(images)
    fit = fit.flatten(1).sum(1).mean()
    assert scores["kl"] == pytest.approx(kl.item())
    assert scores["log_likelihood"] == pytest.approx(fit.item())
    assert scores["reconstruction_error"] == pytest.approx(-fit.item())
    assert scores["elbo"] == pytest.approx((fit - kl).item())


def test_squared_error_is_the_gaussian_likelihood(decoded):
    scores = elbo(**decoded, likelihood="gaussian")
    difference = decoded["images"] / 255 - decoded["reconstructions"]
    expected = (difference**2).reshape(2500, -1).sum(1).mean()
    assert scores["squared_error"] == pytest.approx(expected)
    assert scores["log_likelihood"] == -scores["squared_error"]
    assert scores["elbo"] == pytest.approx(-expected - scores["kl"])


def test_the_learned_gaussian_is_that_of_training(decoded):
    means = torch.tensor(decoded["reconstructions"])
    images = torch.tensor(decoded["images"] / 255)
    trained = learned_gaussian(means[None], images[None])[0]
    scores = elbo(**decoded, likelihood="learned_gaussian")
    assert scores["log_likelihood"] == pytest.approx(-float(trained.mean()), rel=1e-5)


def test_bytes_and_floats_and_tensors_are_the_same_images(decoded):
    same = decoded | {
        "images": torch.tensor(decoded["images"] / 255),
        "reconstructions": torch.tensor(decoded["reconstructions"], requires_grad=True),
    }
    assert elbo(**same) == elbo(**decoded)


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_torch_device_gives_same_scores(decoded, likelihood):
    for images in (decoded["images"], decoded["images"] / 255, decoded["images"] > 0):
        given = decoded | {"images": images, "likelihood": likelihood}
        assert elbo(**given, device="cpu") == pytest.approx(elbo(**given), rel=1e-12)
    with pytest.raises(MetricError, check=about("reconstructions", (ANY, ANY))):
        elbo(**decoded | {"reconstructions": decoded["reconstructions"] * 3}, device="cpu")


def test_confident_wrong_pixel_has_finite_cost(decoded):
    wrong = decoded | {"reconstructions": 1 - decoded["images"] / 255}
    assert elbo(**wrong)["log_likelihood"] == pytest.approx(20 * np.log(1e-7), rel=1e-3)


@pytest.mark.parametrize(
    ("change", "subject", "value"),
    [
        ({"logvars": None}, "logvars", None),
        ({"images": np.full((2500, 4, 5, 1), 1.5)}, "images", (1.5, 1.5)),
        ({"reconstructions": np.full((2500, 4, 5, 1), np.nan)}, "reconstructions", (ANY, ANY)),
        ({"reconstructions": np.zeros((2500, 20))}, "reconstructions", [2500, 20]),
        ({"codes": np.zeros((3, 3)), "logvars": np.zeros((3, 3))}, "images", 2500),
        ({"logvars": np.zeros((2500, 2))}, "logvars", [2500, 2]),
        ({"likelihood": "poisson"}, "likelihood", "poisson"),
    ],
)
def test_mismatched_arguments_are_named(decoded, change, subject, value):
    with pytest.raises(UnweaveError, check=about(subject, value)):
        elbo(**decoded | change)
