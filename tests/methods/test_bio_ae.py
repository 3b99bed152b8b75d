"""BioAE against the textbook, its two presets, and the theory behind it."""

import math
from dataclasses import replace

import pytest
import torch

import unweave as uw
from tests.methods.second_stages import blobs
from tests.methods.small_fleet import LATENTS, MODELS, mean
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.fleet.engine import Engine
from unweave.methods import AE, BetaVAE, BioAE
from unweave.models.config import Config
from unweave.random import Stream

PIXELS = 16


def textbook(fleet, m, method):
    codes = [mu for mu, _ in fleet.posteriors(m)]
    images = zip(codes, fleet.images[m], strict=True)
    reconstruction = mean(fleet.cross_entropy(m, z, x) for z, x in images)
    values = [value for z in codes for value in z]
    negative, energy = mean(max(-v, 0) for v in values), mean(v * v for v in values)
    loss = method.lambda_n * negative + method.lambda_a * energy
    if method.sums:
        loss = LATENTS * loss + reconstruction
        for network in ("encoder", "decoder"):
            for weight in fleet.alone(m).weights(network):
                loss += method.lambda_w * sum(w * w for w in weight.flatten().tolist())
    else:
        loss += reconstruction / PIXELS
    return {
        "model": loss,
        "reconstruction": reconstruction,
        "negative": mean(v < 0 for v in values),
        "energy": energy,
    }


def test_without_penalties_it_is_an_autoencoder(fleet):
    ae = fleet.losses(*[AE()] * MODELS).groups["model"]
    free = {"lambda_n": 0, "lambda_a": 0}
    assert torch.equal(fleet.losses(*[BioAE(**free, sums=True)] * MODELS).groups["model"], ae)
    means = fleet.losses(*[BioAE(**free)] * MODELS).groups["model"]
    assert torch.equal(means, ae / PIXELS)


def test_only_negative_codes_pay_and_the_slope_is_constant():
    method, z = BioAE(lambda_a=0), torch.tensor([[[0.0, 2.0, 0.5, 1e-3]]], requires_grad=True)
    assert method.penalty(z).item() == 0
    z = torch.tensor([[[-0.2, 2.0, -3.0, 1.0]]], requires_grad=True)
    (slope,) = torch.autograd.grad(method.penalty(z).sum(), z)
    assert slope.tolist() == [[[-0.25, 0, -0.25, 0]]]
    (slope,) = torch.autograd.grad(replace(method, sums=True).penalty(z).sum(), z)
    assert slope.tolist() == [[[-1, 0, -1, 0]]]


def rotated(degrees):
    """Non-negative codes of two uniform factors, rotated, with the least bias, [n, 2]."""
    factors = 2 * Stream(0, "factors").uniform(100_000, 2).double() - 1
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    bias = abs(cos) + abs(sin)
    return factors @ torch.tensor([[cos, sin], [-sin, cos]]).double() + bias


@pytest.mark.parametrize(
    ("degrees", "energy"), [(0, 2.667), (math.degrees(math.atan2(0.6, 0.8)), 4.587), (45, 4.667)]
)
def test_rotated_codes_need_more_energy(degrees, energy):
    codes = rotated(degrees)
    assert codes.min() > 0
    assert codes.square().sum(1).mean().item() == pytest.approx(energy, rel=5e-3)
    penalty = BioAE(lambda_a=1, sums=True).penalty(codes[None].float()).item()
    assert penalty == pytest.approx(energy, rel=5e-3)


@pytest.mark.parametrize("start", [20.0, 70.0, 115.0, -40.0])
def test_least_energy_aligns_a_linear_code_with_the_factors(start):
    factors = torch.cartesian_prod(torch.linspace(-1, 1, 9), torch.linspace(-1, 1, 9))[None]
    angle = torch.tensor(math.radians(start), requires_grad=True)
    adam = torch.optim.Adam([angle], lr=0.05)
    method = BioAE(lambda_a=1, sums=True)
    for step in range(120):
        adam.param_groups[0]["lr"] = 0.05 * (1 - step / 120)
        cos, sin = angle.cos(), angle.sin()
        codes = factors @ torch.stack([torch.stack([cos, sin]), torch.stack([-sin, cos])])
        codes = codes - codes.amin(1, keepdim=True)  # the least bias that avoids negative codes
        adam.zero_grad()
        method.penalty(codes).sum().backward()
        adam.step()
    turned = math.degrees(angle.item()) % 90
    assert min(turned, 90 - turned) < 3


def test_the_paper_penalises_the_weights_of_all_layers_and_no_biases():
    method, data = BioAE.whittington(), blobs()
    assert method == BioAE(lambda_n=0.5, lambda_a=5e-3, lambda_w=1e-3, sums=True)
    shared = {"batch": 4, "latents": 3, "architecture": "small_mlp"}
    settings = [0.0, 1.0]
    losses = []
    for lambda_w in settings:
        run = Config(method=replace(method, lambda_w=lambda_w), **shared)
        # In a mixed fleet, networks are shared with runs of other methods.
        other = [Config(method=BetaVAE(), **shared)] if lambda_w else []
        engine = Engine([*other, run], data, "cpu")
        group = engine.groups["model"]
        energy = sum(
            float(value[-1].square().sum())
            for named in group.named(group.parameters).values()
            for name, value in named.items()
            if name.endswith("weight")
        )
        engine.advance(1)
        losses.append(engine.fetch()[0, -1].item())
    assert losses[1] - losses[0] == pytest.approx(energy, rel=1e-3)


def test_weights_cost_nothing_without_sums():
    with pytest.raises(UnweaveError, check=about("lambda_w", 1e-3)):
        BioAE(lambda_w=1e-3)


def test_codes_become_non_negative():
    shared = {"batch": 16, "latents": 3, "architecture": "small_mlp", "device": "cpu"}
    adam = uw.Adam(lr=3e-3, weight_decay=1e-4)
    methods = [BioAE(), AE()]
    fleet = uw.train(methods, blobs(), steps=100, optimiser=adam, progress=False, **shared)
    bio, ae = fleet.encode(blobs())[0]
    assert (bio < 0).mean() < 0.1
    assert (ae < 0).mean() > 0.25
    assert fleet[0].curve["negative"].iloc[-1] < 0.2
