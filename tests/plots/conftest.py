"""A small grid of sprites, and a model whose latents have known, different spreads."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import unweave as uw

LATENTS = 4
INACTIVE = 2
SPREAD = (0.5, 1.5, 0.0, 1.0)
"""Standard deviations of the latents' means; latent 2 is inactive."""


@pytest.fixture(scope="session")
def sprites():
    """Return 384 sprites: three shapes, two scales, 8 × 8 positions."""
    places = range(0, 32, 4)
    return uw.data.load("dsprites").slice(scale=[3, 5], orientation=0, posX=places, posY=places)


@pytest.fixture(scope="session")
def trained(sprites):
    """Train a model for a few steps."""
    (model,) = uw.train(
        uw.methods.BetaVAE(beta=2), sprites, steps=3, batch=8, latents=LATENTS, progress=False
    )
    return model


@pytest.fixture(scope="session")
def model(trained, sprites):
    """Change the last encoder layer so that the latents have these spreads."""
    raw = trained.encode(sprites)[0].astype(np.float64)
    scale = torch.as_tensor(np.array(SPREAD) / raw.std(0), dtype=torch.float32)
    centre = torch.as_tensor(raw.mean(0), dtype=torch.float32)
    weights = trained.named_parameters()
    last = weights["encoder/6.weight"].clone()
    bias = weights["encoder/6.bias"].clone()
    last[:, :LATENTS] *= scale
    last[:, LATENTS:] = 0
    bias[:LATENTS] = (bias[:LATENTS] - centre) * scale
    bias[LATENTS:] = torch.tensor([0.0 if j == INACTIVE else -4.0 for j in range(LATENTS)])
    weights |= {"encoder/6.weight": last, "encoder/6.bias": bias}
    weights["decoder/0.weight"] = 20 * weights["decoder/0.weight"]
    return with_weights(trained, weights)


def with_weights(model, weights):
    """Return the model with other parameters, given by name."""
    parameters = {
        name: network.packed({key: weights[f"{name}/{key}"][None] for key in network.shapes})
        for name, network in model._networks.items()
    }
    return replace(model, parameters=parameters)


@pytest.fixture(scope="session")
def asleep(trained):
    """Return a model whose posteriors all equal the prior."""
    weights = trained.named_parameters()
    for name in ("encoder/6.weight", "encoder/6.bias"):
        weights[name] = 0 * weights[name]
    return with_weights(trained, weights)


@pytest.fixture(scope="session")
def ensemble(sprites, planted):
    """Return three members that agree on latents 0 and 1, disagree on 3 and do not use 2."""
    quick = {"steps": 1, "batch": 8, "latents": 4, "architecture": "small_mlp"}
    (trained,) = uw.train(uw.methods.VAEEnsemble(members=3), sprites, progress=False, **quick)
    return planted(trained, sprites)


@pytest.fixture(scope="session")
def lost(model):
    """Return a model that diverged."""
    return replace(model, diverged_at=np.array([2]))


@pytest.fixture(scope="session")
def grey():
    """Return 20 images of 32 × 32 pixels without factors."""
    images = np.random.default_rng(0).integers(0, 256, (20, 32, 32), dtype=np.uint8)
    return uw.data.load(images, name="grey")


def bytes_of(images):
    """Convert decoded images `[n, H, W, C]` to bytes with three channels, as plots show them."""
    images = images if images.dtype == np.uint8 else np.rint(images * 255).astype(np.uint8)
    return images.repeat(3, axis=-1) if images.shape[-1] == 1 else images


@pytest.fixture(scope="session")
def shown():
    """Return the function that converts images to what plots show."""
    return bytes_of
