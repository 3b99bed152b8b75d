"""Small fixtures: images of three panes, two VAEs trained on them, and an untrained m."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import unweave as uw
from unweave.papers.inductive_biases.manipulation import Manipulation
from unweave.papers.inductive_biases.manipulation.manipulation import manipulation_network

SIZES = (3, 6, 6)


def made_up(shape, sizes, epsilon, seed=0, times=2.0):
    """An m with random parameters, large enough to change images visibly."""
    network = manipulation_network(len(sizes), shape)
    buffer = times * network.initial(torch.tensor([seed]), "manipulation", "torch")
    curve = pd.DataFrame(
        [[0, 1, 1, 0]], columns=["step", "disentangling", "entangling", "difference"]
    )
    named = {name: value[0].clone() for name, value in network.named(buffer)}
    return Manipulation(named, epsilon, shape, sizes, {"data": []}, curve)


@pytest.fixture(scope="session")
def make_up():
    return made_up


@pytest.fixture(scope="session")
def panes():
    """108 images of three panes, a large one and two small ones, each of its own brightness."""
    classes = np.stack(np.meshgrid(*(np.arange(size) for size in SIZES), indexing="ij"), -1)
    factors = classes.reshape(-1, 3)
    light = 40 + 30 * factors
    images = np.zeros((len(factors), 32, 32), np.uint8)
    images[:, :20] = light[:, 1, None, None]
    images[:, 22:, :10] = light[:, 2, None, None]
    images[:, 22:, 22:] = light[:, 0, None, None]
    columns = dict(zip(("corner", "large", "small"), factors.T, strict=True))
    return uw.data.load(images, factors=columns, name="panes")


@pytest.fixture(scope="session")
def pair(panes):
    """A small VAE of the panes, and its twin with the first two latents rotated by 45 degrees."""
    settings = {"latents": 2, "batch": 32, "architecture": "small_mlp", "likelihood": "gaussian"}
    quiet = {"device": "cpu", "progress": False, "optimiser": uw.Adam(lr=3e-3)}
    fleet = uw.train(uw.methods.VAE(), panes, steps=200, **settings, **quiet)
    return fleet[0], turned(fleet[0])


def turned(model):
    """The same model with rotated codes and decoder, and unchanged noise of each latent."""
    turn = torch.tensor([[1.0, -1.0], [1.0, 1.0]]) / 2**0.5
    weights = {name: value.clone() for name, value in model.named_parameters().items()}
    weight, bias = [name for name in weights if name.startswith("encoder")][-2:]
    weights[weight][:, :2] = weights[weight][:, :2] @ turn
    weights[bias][:2] = weights[bias][:2] @ turn
    weights["decoder/0.weight"] = turn.T @ weights["decoder/0.weight"]
    packed = {
        name: network.packed({key: weights[f"{name}/{key}"][None] for key in network.shapes})
        for name, network in model._networks.items()
    }
    return replace(model, parameters=packed)
