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


def textbook(fleet, m, method):
    reconstruction, kl, *_ = fleet.textbook_elbo(m)
    capacity = min(method.c_max, method.c_max * int(fleet.step) / method.threshold)
    loss = reconstruction + method.gamma * abs(kl - capacity)
    return {"model": loss, "reconstruction": reconstruction, "kl": kl}


@pytest.mark.parametrize("step", [0, 25_000, 250_000])
def test_losses_are_those_of_the_textbook_at_any_step(fleet, step):
    fleet = replace(fleet, step=torch.tensor(step))
    same(fleet.losses(*METHODS), [textbook(fleet, m, one) for m, one in enumerate(METHODS)])


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
