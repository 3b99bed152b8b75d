"""The autoencoder against the textbook."""

from dataclasses import replace

import torch

from tests.methods.small_fleet import LATENTS, MODELS, NETWORKS, equal, mean
from unweave.methods import AE


def textbook(fleet, m, method):
    del method
    images = zip(fleet.posteriors(m), fleet.images[m], strict=True)
    reconstruction = mean(fleet.cross_entropy(m, mu, x) for (mu, _), x in images)
    return {"model": reconstruction, "reconstruction": reconstruction}


def bias_of_heads(encoder):
    """The biases of means and log-variances, a view."""
    return list(NETWORKS["encoder"].named(encoder))[-1][1]


def test_the_log_variance_has_no_effect(fleet):
    encoder = fleet.parameters["encoder"].clone()
    bias_of_heads(encoder)[:, LATENTS:] += 1
    other = replace(fleet, parameters={**fleet.parameters, "encoder": encoder})
    equal(fleet.losses(*[AE()] * MODELS), other.losses(*[AE()] * MODELS))


def test_the_log_variance_gets_no_gradient(fleet):
    encoder = fleet.parameters["encoder"].clone().requires_grad_()
    fleet = replace(fleet, parameters={**fleet.parameters, "encoder": encoder})
    loss = fleet.losses(*[AE()] * MODELS).groups["model"].sum()
    (gradient,) = torch.autograd.grad(loss, encoder)
    assert (bias_of_heads(gradient)[:, LATENTS:] == 0).all()
    assert (bias_of_heads(gradient)[:, :LATENTS] != 0).all()


def test_there_is_no_noise(fleet):
    later = replace(fleet, step=fleet.step + 1)
    equal(fleet.losses(*[AE()] * MODELS), later.losses(*[AE()] * MODELS))
