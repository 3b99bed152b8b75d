"""Local alignment: Jacobians against finite differences, distances where they are known."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.methods import VAE
from unweave.methods.base import MODEL, NetworkSpec
from unweave.models.config import Config
from unweave.models.model import Model
from unweave.nets.layers import Linear, Reshape
from unweave.nets.network import Network
from unweave.papers.inductive_biases.theory.local_alignment import (
    decoder_jacobians,
    distance_of_axes,
    local_alignment,
)
from unweave.papers.theory import TheoryError

SHAPE, LATENTS = (1, 6, 1), 3


@dataclass(frozen=True, kw_only=True)
class LinearVAE(VAE):
    """Linear networks."""

    name = "linear_vae"

    def networks(self, spec):
        encoder = Network((Reshape((6,)), Linear(6, 2 * spec.latents, "none")))
        decoder = Network((Linear(spec.latents, 6, "none"), Reshape(spec.shape)))
        return {MODEL: {"encoder": encoder, "decoder": decoder}}


def linear_model(weight):
    """Codes are the first numbers, less their middle; images ½ + W z."""
    config = Config(method=LinearVAE(), latents=LATENTS, likelihood="gaussian")
    networks = LinearVAE().networks(NetworkSpec("", SHAPE, LATENTS))[MODEL]
    encoder, decoder = networks["encoder"], networks["decoder"]
    reading = torch.zeros(1, 6, 2 * LATENTS)
    reading[0, :LATENTS, :LATENTS] = torch.eye(LATENTS)
    shift = torch.tensor([[-0.5] * LATENTS + [-4.0] * LATENTS])
    drawing = {
        "0.weight": torch.as_tensor(weight).float()[None],
        "0.bias": torch.full((1, 6), 0.5),
    }
    parameters = {
        "encoder": encoder.packed({"1.weight": reading, "1.bias": shift}),
        "decoder": decoder.packed(drawing),
    }
    return Model([config], SHAPE, parameters, pd.DataFrame({"run": []}), np.array([-1]))


@pytest.fixture(scope="module")
def rows():
    drawn = np.random.default_rng(0).integers(0, 256, size=(40, 1, 6, 1), dtype=np.uint8)
    return uw.data.Dataset("rows", uw.data.stores.Bytes(drawn))


def orthogonal(size, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]


def test_orthogonal_columns_are_aligned(rows):
    weight = np.diag([0.02, 0.05, 0.1]) @ orthogonal(6, 0)[:LATENTS]
    model = linear_model(weight)
    jacobians = decoder_jacobians(model, np.zeros((2, LATENTS)))
    np.testing.assert_allclose(jacobians, [weight.T] * 2, atol=1e-7)
    found = local_alignment(model, rows, images=10)
    assert found.distances == pytest.approx(0, abs=1e-3)
    assert found.latents.tolist() == [0, 1, 2]
    assert 0.5 < found.chance < 0.8


def test_distance_of_rotated_latents_is_that_of_the_rotation(rows):
    angle = 0.3
    turn = np.eye(LATENTS)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    weight = turn @ np.diag([0.02, 0.05, 0.1]) @ orthogonal(6, 0)[:LATENTS]
    found = local_alignment(linear_model(weight), rows, images=10)
    expected = np.linalg.norm(turn - np.eye(LATENTS)) / np.sqrt(LATENTS)
    assert found.distances == pytest.approx(expected, abs=1e-3)
    assert found.mean == pytest.approx(2 * np.sqrt(1 - np.cos(angle)) / np.sqrt(3), abs=1e-3)
    assert "0.244" in str(found)


def test_a_nonlinear_jacobian_is_that_of_finite_differences():
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(4))
    settings = {"latents": LATENTS, "architecture": "small_mlp", "progress": False}
    (model,) = uw.train(VAE(), data, steps=20, batch=8, **settings)
    codes = np.random.default_rng(1).normal(size=(4, LATENTS))
    jacobians = decoder_jacobians(model, codes)
    assert jacobians.shape == (4, 4096, LATENTS)
    width = 0.05
    for latent in range(LATENTS):
        step = width * np.eye(LATENTS)[latent]
        sides = [model.decode(codes + sign * step).astype(float) for sign in (1, -1)]
        slope = ((sides[0] - sides[1]) / (2 * width)).reshape(4, -1)
        error = np.linalg.norm(jacobians[..., latent] - slope) / np.linalg.norm(slope)
        assert error < 0.01
    assert np.linalg.norm(jacobians[0] - jacobians[1]) > 0.1 * np.linalg.norm(jacobians[0])


def test_a_convolutional_jacobian_is_that_of_small_steps():
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(4))
    (model,) = uw.train(VAE(), data, steps=2, batch=4, latents=2, progress=False)
    codes = np.random.default_rng(1).normal(size=(2, 2))
    jacobians = decoder_jacobians(model, codes)
    step = np.array([0.0, 0.05])
    slope = (model.decode(codes + step).astype(float) - model.decode(codes - step)) / 0.1
    error = np.linalg.norm(jacobians[..., 1] - slope.reshape(2, -1)) / np.linalg.norm(slope)
    assert error < 0.05  # kinks of ReLUs


def test_distance_is_invariant_to_scale_and_image_rotation():
    J = np.random.default_rng(2).normal(size=(9, 4))
    once = distance_of_axes(J)
    assert distance_of_axes(orthogonal(9, 3) @ J * 7) == pytest.approx(once)
    assert distance_of_axes(J[:, [2, 0, 3, 1]] * [1, -1, 1, -1]) == pytest.approx(once)
    assert once > 0.1


def test_models_without_directions_are_rejected(rows):
    still = linear_model(np.zeros((LATENTS, 6)))
    silent = still.parameters["encoder"] * 0
    still = Model(
        still.configs,
        SHAPE,
        {**still.parameters, "encoder": silent},
        still.curve,
        still.diverged_at,
    )
    with pytest.raises(TheoryError, check=about("latents", 0)):
        local_alignment(still, rows, images=10)
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(4))
    (pcl,) = uw.train(uw.methods.PCL(), data, steps=1, batch=2, latents=2, progress=False)
    with pytest.raises(UnweaveError, check=about("decoder")):
        local_alignment(pcl, data)
