"""AnnealedVAE against the textbook, and its schedule."""

from dataclasses import replace

import pytest
import torch

from tests.methods.small_fleet import MODELS, same
from unweave.methods import VAE, AnnealedVAE

SETTINGS = (  # capacity, strictness, steps until it is reached
    (1.0, 1000.0, 100_000.0),
    (25.0, 2.0, 100_000.0),
    (100.0, 0.5, 10_000.0),
)
METHODS = [AnnealedVAE(c_max=c, gamma=g, threshold=t) for c, g, t in SETTINGS]


@pytest.mark.parametrize("step", [0, 25_000, 250_000])
def test_losses_are_those_of_the_textbook(fleet, step):
    fleet = replace(fleet, step=torch.tensor(step))
    expected = []
    for m, (c_max, gamma, threshold) in enumerate(SETTINGS):
        reconstruction, kl, *_ = fleet.textbook_elbo(m)
        capacity = min(c_max, c_max * step / threshold)
        loss = reconstruction + gamma * abs(kl - capacity)
        expected.append({"model": loss, "reconstruction": reconstruction, "kl": kl})
    same(fleet.losses(*METHODS), expected)


def test_the_textbook_is_met_on_both_sides_of_the_capacity(fleet):
    stacked = AnnealedVAE.stack(METHODS)
    above = fleet.losses(*METHODS).terms["kl"] > stacked.capacity(fleet.step)
    assert above.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("step", "share"), [(0, 0), (50_000, 0.5), (100_000, 1), (100_001, 1), (300_000, 1)]
)
def test_the_capacity_grows_linearly_for_100_000_steps_and_then_stays(step, share):
    stacked = AnnealedVAE.stack([AnnealedVAE(c_max=c) for c in (5, 25, 100)])
    found = stacked.capacity(torch.tensor(step))
    assert found.tolist() == [5 * share, 25 * share, 100 * share]


def test_gamma_0_leaves_the_reconstruction_from_noisy_codes(fleet):
    free = fleet.losses(*[AnnealedVAE(gamma=0)] * MODELS)
    vae = fleet.losses(*[VAE()] * MODELS)
    assert free.groups["model"].tolist() == vae.terms["reconstruction"].tolist()


def test_the_fixed_values_are_the_studys():
    assert AnnealedVAE().gamma == 1000
    assert AnnealedVAE().threshold == 100_000
