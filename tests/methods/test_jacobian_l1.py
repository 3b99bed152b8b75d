"""The Jacobian penalty against the textbook and linear decoders."""

import pytest
import torch

import unweave as uw
from tests.methods import test_beta_tc_vae, test_beta_vae
from tests.methods.second_stages import blobs
from tests.methods.small_fleet import IMAGES, LATENTS, mean, probability, random
from unweave.fleet.engine import Engine
from unweave.methods import (
    AE,
    Batch,
    BetaTCVAE,
    BetaVAE,
    FactorVAE,
    JacobianL1,
    Nets,
    Posterior,
)
from unweave.models.config import Config
from unweave.nets.likelihoods import gaussian
from unweave.random import Stream

HOSTS = {"beta_vae": test_beta_vae, "beta_tc_vae": test_beta_tc_vae}
STEP = 0.1


def textbook(fleet, m, method):
    host = HOSTS[method.host_method.name].textbook(fleet, m, method.host_method)
    codes = fleet.textbook_elbo(m)[2]
    stream = Stream(int(fleet.seeds[m]), "jacobian", int(fleet.step))
    chosen = stream.integers(LATENTS, IMAGES, 1)[:, 0].tolist()
    averages = [mean(z[latent] for z in codes) for latent in range(LATENTS)]
    sigma = [
        mean((z[latent] - averages[latent]) ** 2 for z in codes) ** 0.5
        for latent in range(LATENTS)
    ]
    found = []
    for z, latent in zip(codes, chosen, strict=True):
        sides = []
        for sign in (1, -1):
            moved = list(z)
            moved[latent] += sign * STEP * sigma[latent]
            sides.append(map(probability, fleet.network("decoder", m, moved)))
        found.append(LATENTS * mean(abs(a - b) / (2 * STEP) for a, b in zip(*sides, strict=True)))
    return {
        **host,
        "model": host["model"] + method.alpha * mean(found),
        "jacobian": mean(found),
    }


def penalty(weight, z, step=0):
    """The penalty of a decoder g(z) = W z with the likelihood of squared errors."""
    nets = Nets(
        {"decoder": lambda codes: (codes @ weight).unflatten(-1, (3, 2, 1))},
        gaussian,
        mean=lambda decoded: decoded,
    )
    images = torch.zeros(1, z.shape[1], 3, 2, 1)
    batch = Batch(images, torch.tensor([7]), torch.tensor(step), len(images))
    return JacobianL1().penalty(nets, batch, Posterior(z, torch.zeros_like(z)), z)


def test_its_expectation_is_the_full_norm_of_a_linear_decoder(double):
    weight, z = random(1, 3, 6, seed=1), random(1, 1_000_000, 3, seed=2)
    full = (weight.abs().sum(-1) * z.std(1, correction=0)).sum() / 6
    assert penalty(weight, z).item() == pytest.approx(full.item(), rel=1e-3)


def test_scaling_codes_and_the_decoder_changes_nothing(double):
    weight, z, scale = random(1, 3, 6, seed=1), random(1, 50, 3, seed=2), torch.ones(1, 1, 3)
    scale = scale.double().requires_grad_()
    found = penalty(weight / scale.mT, z * scale)
    (slope,) = torch.autograd.grad(found.sum(), scale)
    assert slope.abs().max() < 1e-12
    assert penalty(5 * weight, z / 5).item() == pytest.approx(found.item(), rel=1e-9)
    assert penalty(5 * weight, z).item() == pytest.approx(5 * found.item(), rel=1e-9)


def test_a_batch_of_one_has_no_penalty(double):
    z = random(1, 1, 3, seed=2).requires_grad_()
    found = penalty(random(1, 3, 6, seed=1), z)
    assert found.item() < 1e-5
    assert torch.autograd.grad(found.sum(), z)[0].isfinite().all()


def test_the_latent_differs_between_steps(double):
    weight, z = random(1, 3, 6, seed=1), random(1, 4, 3, seed=2)
    assert len({penalty(weight, z, step).item() for step in range(20)}) > 5


@pytest.mark.parametrize(
    ("host", "method"),
    [
        ("beta_vae=2", BetaVAE(beta=2)),
        ("beta_tc_vae", BetaTCVAE()),
        ("factor_vae=7", FactorVAE(gamma=7)),
        ("ae", AE()),
    ],
)
@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_alpha_0_is_the_host_to_the_bit(host, method, likelihood):
    shared = {"batch": 8, "latents": 4, "architecture": "small_mlp", "likelihood": likelihood}
    found = []
    for each in (method, JacobianL1(alpha=0, host=host)):
        engine = Engine([Config(method=each, **shared)], blobs(), "cpu")
        engine.advance(4)
        found.append({name: buffer for name, _, buffer in engine.networks(engine.parts[0])})
    alone, added = found
    assert alone.keys() == added.keys()
    assert all(torch.equal(alone[name], added[name]) for name in alone)


def test_a_strong_penalty_makes_images_depend_less_on_codes():
    shared = {"batch": 16, "latents": 3, "architecture": "small_mlp", "device": "cpu"}
    method = JacobianL1(alpha=[0, 1e4], host="ae")
    fleet = uw.train(method, blobs(), steps=200, learning_rate=3e-3, progress=False, **shared)
    without, strong = (model.curve["jacobian"].iloc[-1] for model in fleet)
    assert strong < without / 3
