"""The autoencoder against the textbook."""

from dataclasses import replace

import torch
from small_fleet import LATENTS, MODELS, equal, mean, same

from unweave.methods import AE


def test_losses_are_those_of_the_textbook(fleet):
    expected = []
    for m in range(MODELS):
        images = zip(fleet.posteriors(m), fleet.images[m], strict=True)
        reconstruction = mean(fleet.cross_entropy(m, mu, x) for (mu, _), x in images)
        expected.append({"model": reconstruction, "reconstruction": reconstruction})
    same(fleet.losses(*[AE()] * MODELS), expected)


def test_the_log_variance_has_no_effect(fleet):
    encoder = fleet.parameters["encoder"].clone()
    encoder[:, -LATENTS:] += 1  # the biases of the head for the log-variance
    other = replace(fleet, parameters={**fleet.parameters, "encoder": encoder})
    equal(fleet.losses(*[AE()] * MODELS), other.losses(*[AE()] * MODELS))


def test_the_log_variance_gets_no_gradient(fleet):
    encoder = fleet.parameters["encoder"].clone().requires_grad_()
    fleet = replace(fleet, parameters={**fleet.parameters, "encoder": encoder})
    loss = fleet.losses(*[AE()] * MODELS).players["model"].sum()
    (gradient,) = torch.autograd.grad(loss, encoder)
    assert (gradient[:, -LATENTS:] == 0).all()
    assert (gradient[:, -2 * LATENTS : -LATENTS] != 0).all()


def test_there_is_no_noise(fleet):
    later = replace(fleet, step=fleet.step + 1)
    equal(fleet.losses(*[AE()] * MODELS), later.losses(*[AE()] * MODELS))
