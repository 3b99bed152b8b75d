"""A small grid of sprites, and a model whose latents are set to be told apart."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import unweave as uw

LATENTS = 4
DEAD = 2
SPREAD = (0.5, 1.5, 0.0, 1.0)
"""Standard deviations of the latents' means; latent 2 says nothing."""


@pytest.fixture(scope="session")
def sprites():
    """384 sprites: three shapes, two scales, 8 × 8 places."""
    places = range(0, 32, 4)
    return uw.data.load("dsprites").slice(scale=[3, 5], orientation=0, posX=places, posY=places)


@pytest.fixture(scope="session")
def trained(sprites):
    """A model that was hardly trained."""
    (model,) = uw.train(
        uw.methods.BetaVAE(beta=2), sprites, steps=3, batch=8, latents=LATENTS, progress=False
    )
    return model


@pytest.fixture(scope="session")
def model(trained, sprites):
    """The same with the last layer of its encoder changed, so that latents have these spreads."""
    raw = trained.encode(sprites)[0].astype(np.float64)
    scale = torch.as_tensor(np.array(SPREAD) / raw.std(0), dtype=torch.float32)
    centre = torch.as_tensor(raw.mean(0), dtype=torch.float32)
    weights = trained.named_parameters()
    last = weights["encoder/6.weight"].clone()
    bias = weights["encoder/6.bias"].clone()
    last[:, :LATENTS] *= scale
    last[:, LATENTS:] = 0
    bias[:LATENTS] = (bias[:LATENTS] - centre) * scale
    bias[LATENTS:] = torch.tensor([0.0 if j == DEAD else -4.0 for j in range(LATENTS)])
    weights |= {"encoder/6.weight": last, "encoder/6.bias": bias}
    weights["decoder/0.weight"] = 20 * weights["decoder/0.weight"]
    return with_weights(trained, weights)


def with_weights(model, weights):
    """The model with other parameters, given by name."""
    parameters = {
        name: network.packed({key: weights[f"{name}/{key}"][None] for key in network.shapes})
        for name, network in model._networks.items()
    }
    return replace(model, parameters=parameters)


@pytest.fixture(scope="session")
def asleep(trained):
    """A model whose latents all stay like the prior."""
    weights = trained.named_parameters()
    for name in ("encoder/6.weight", "encoder/6.bias"):
        weights[name] = 0 * weights[name]
    return with_weights(trained, weights)


@pytest.fixture(scope="session")
def ensemble(sprites, planted):
    """Three members that agree on latents 0 and 1, do not use 2, disagree on 3; their ways."""
    quick = {"steps": 1, "batch": 8, "latents": 4, "architecture": "small_mlp"}
    (trained,) = uw.train(uw.methods.VAEEnsemble(members=3), sprites, progress=False, **quick)
    return planted(trained, sprites)


@pytest.fixture(scope="session")
def lost(model):
    """A model that diverged."""
    return replace(model, diverged_at=np.array([2]))


@pytest.fixture(scope="session")
def grey():
    """20 images of 32 × 32 without factors."""
    images = np.random.default_rng(0).integers(0, 256, (20, 32, 32), dtype=np.uint8)
    return uw.data.load(images, name="grey")


def bytes_of(images):
    """Decoded images `[n, H, W, C]` as bytes with three channels, as pictures show them."""
    images = images if images.dtype == np.uint8 else np.rint(images * 255).astype(np.uint8)
    return images.repeat(3, axis=-1) if images.shape[-1] == 1 else images


@pytest.fixture(scope="session")
def shown():
    """How pictures show images."""
    return bytes_of
