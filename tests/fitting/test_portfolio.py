"""Defaults that depend on the images and on the device."""

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.fitting.portfolio import likelihood_for, methods_and_seeds


@pytest.mark.parametrize(
    ("values", "likelihood"),
    [([0, 255], "bernoulli"), ([0, 254], "learned_gaussian"), ([0, 1, 255], "learned_gaussian")],
)
def test_only_black_and_white_images_have_a_bernoulli_likelihood(values, likelihood):
    images = np.random.default_rng(0).choice(np.uint8(values), (80, 16, 16))
    assert likelihood_for(uw.data.load(images, name="noise")) == likelihood


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_given_methods_and_seeds_are_used_as_they_are(device):
    device = torch.device(device)
    method = uw.methods.FactorVAE(gamma=10)
    assert methods_and_seeds(method, [3], device) == (method, [3])
    default, seeds = methods_and_seeds(None, 7, device)
    assert len(default) >= 1
    assert seeds == 7
    (named, _) = methods_and_seeds("Beta-VAE", None, device)
    assert isinstance(named, uw.methods.BetaVAE)
    assert len(named.grid()) > 1
