"""Defaults that depend on the images and on the device."""

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.fitting.portfolio import (
    PORTFOLIOS,
    likelihood_for,
    runs_of,
    smaller_size,
    with_defaults,
)

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def gratings(side, period):
    """80 gratings with stripes of half a period, at random phases."""
    phase = np.random.default_rng(0).uniform(0, 2 * np.pi, (80, 1, 1))
    waves = np.sin(2 * np.pi * np.arange(side) / period + phase)
    images = np.broadcast_to(127.5 + 127 * waves, (80, side, side))
    return uw.data.load(images.astype(np.uint8), name="gratings")


@pytest.mark.parametrize(
    ("values", "likelihood"),
    [([0, 255], "bernoulli"), ([0, 254], "learned_gaussian"), ([0, 1, 255], "learned_gaussian")],
)
def test_only_black_and_white_images_have_a_bernoulli_likelihood(values, likelihood):
    images = np.random.default_rng(0).choice(np.uint8(values), (80, 16, 16))
    assert likelihood_for(uw.data.load(images, name="noise")) == likelihood


@pytest.mark.parametrize("device", [CPU, GPU])
def test_given_methods_and_seeds_are_used_as_they_are(device):
    images = gratings(32, 16)
    (run,) = runs_of(uw.methods.FactorVAE(gamma=10), images, [3], 5, device, {})
    assert (run.method, run.seed, run.steps) == (uw.methods.FactorVAE(gamma=10), 3, 5)
    named = runs_of("Beta-VAE", images, 2, 5, device, {})
    assert len({run.method.beta for run in named}) == len(named) / 2 > 1


@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_portfolio_has_all_its_methods_with_every_architecture_and_seed(device):
    portfolio = PORTFOLIOS[device.type]
    images = gratings(32, 16)
    runs = runs_of(None, images, None, 5, device, {})
    methods = [one for method in portfolio.others for one in method.grid()]
    assert {run.architecture for run in runs} == set(portfolio.architectures)
    assert len(runs) == len(portfolio.architectures) * len(methods) * portfolio.seeds
    given = runs_of(None, images, range(3), 5, device, {"architecture": "conv"})
    assert {run.architecture for run in given} == {"conv"}
    assert {run.seed for run in given} == {0, 1, 2}
    binary = runs_of(None, images, 1, 5, device, {"likelihood": "bernoulli"})
    expected = [one for method in portfolio.binary for one in method.grid()]
    assert {str(run.method) for run in binary} == set(map(str, expected))


def test_small_images_and_rows_have_no_convolutions():
    rows = np.random.default_rng(0).integers(0, 255, (80, 8, 8), np.uint8)
    runs = runs_of(None, uw.data.load(rows, name="rows"), 1, 5, GPU, {"architecture": "mlp"})
    assert {run.architecture for run in runs} == {"mlp"}


def test_only_images_that_lose_little_are_reduced_and_only_on_a_cpu():
    assert smaller_size(gratings(64, 32), CPU) == 32
    assert smaller_size(gratings(64, 32), GPU) is None
    assert smaller_size(gratings(64, 4), CPU) is None  # reduced images would be grey
    assert smaller_size(gratings(32, 16), CPU) is None


def test_images_of_one_colour_are_reduced_too():
    grey = np.random.default_rng(0).integers(0, 255, (80, 1, 1)) + np.zeros((64, 64))
    assert smaller_size(uw.data.load(grey.astype(np.uint8), name="grey"), CPU) == 32


def test_settings_suit_the_images_and_the_device_unless_they_are_given():
    images = gratings(32, 16)
    chosen = with_defaults({}, images, CPU)
    assert chosen["architecture"] == "broadcast"
    assert chosen["batch"] < with_defaults({}, images, GPU)["batch"]
    assert set(chosen) >= {"learning_rate", "likelihood", "init"}
    given = {"optimiser": uw.Adam(lr=1e-4), "architecture": "mlp", "batch": 8, "init": "torch"}
    kept = with_defaults(given, images, CPU)
    assert kept == {**given, "likelihood": "learned_gaussian"}
