"""Jacobian supervision against the formula, term by term, and what its student learns."""

import math
from functools import partial

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.second_stages import blobs, first_stage, second_runs
from tests.methods.small_fleet import (
    BEFORE,
    DATA_SIZE,
    IMAGES,
    LATENTS,
    mean,
    probability,
    random,
)
from tests.raising import about
from unweave.errors import UnknownNameError
from unweave.methods import Batch, BetaVAE, JacobianSupervision, Nets
from unweave.methods.base import Stage
from unweave.methods.jacobian import covariance_norm
from unweave.nets.adam import Adam
from unweave.nets.likelihoods import bernoulli, mean_image
from unweave.random import Stream


def textbook(fleet, m, method):
    one = fleet.alone(m)
    images = one.images[0].flatten(1).tolist()
    words = Stream(int(fleet.seeds[m]), "partner", int(fleet.step)).words(IMAGES, 1)
    partner = np.argsort(words[:, 0].numpy())
    first = one.nets().first
    alone = [one.images[:, b : b + 1] for b in range(IMAGES)]
    taught = [first.encode(image).mu.flatten().tolist() for image in alone]
    codes = [one.nets().apply["encoder"](image).flatten().tolist() for image in alone]
    teacher, student = partial(drawn, first.decode), partial(drawn, one.nets().decode)
    squared, code, difference = [], [], []
    for i, j in enumerate(partner):
        here = student(codes[i])
        there = student(codes[j][:BEFORE] + codes[i][BEFORE:])
        squared += [(x - p) ** 2 for x, p in zip(images[i], here, strict=True)]
        code += [(t - s) ** 2 for t, s in zip(taught[i], codes[i][:BEFORE], strict=True)]
        step = zip(there, here, teacher(taught[j]), teacher(taught[i]), strict=True)
        difference += [((a - b) - (c - d)) ** 2 for a, b, c, d in step]
    total = 0.0
    for k in range(BEFORE):
        for latent in range(BEFORE, BEFORE + LATENTS):
            y, z = [c[k] for c in codes], [c[latent] for c in codes]
            pairs = zip(y, z, strict=True)
            total += sum((a - mean(y)) * (b - mean(z)) for a, b in pairs) ** 2
    terms = {
        "squared_error": mean(squared),
        "code_error": mean(code),
        "difference_error": mean(difference),
        "covariance": math.sqrt(total) / IMAGES,
    }
    loss = mean(squared) + method.lambda_y * mean(code)
    loss += method.lambda_diff * mean(difference) + method.lambda_cov * terms["covariance"]
    return {"model": loss, **terms}


def drawn(decode, code):
    """The image of one code, in plain numbers."""
    logits = decode(torch.tensor([[code]], dtype=torch.float64))
    return [probability(logit) for logit in logits.flatten().tolist()]


def perfect(unused=0.0, taught=1.0):
    """A student that is the teacher of images which the teacher draws without fault.

    Args:
        unused: How much z, a copy of y, is seen in the student's images.
        taught: The student's y, in those of the teacher.
    """
    y = random(2, 6, 2, seed=1)
    pattern = random(2, 9, seed=2)
    draw = lambda codes: (codes @ pattern).unflatten(-1, (3, 3, 1))  # noqa: E731 - a network
    images = draw(y).sigmoid()
    below = Nets({"encoder": lambda _: torch.cat([y, y], -1), "decoder": draw}, bernoulli)

    def decode(codes):
        shown = codes[..., :2] / taught + unused * codes[..., 2:]
        return draw(shown)

    z = y if unused else torch.zeros_like(y)
    apply = {"encoder": lambda _: torch.cat([taught * y, z], -1), "decoder": decode}
    first = Stage(BetaVAE(), below, 2, lambda logits: mean_image("bernoulli", logits))
    batch = Batch(images, torch.tensor([3, 4]), torch.tensor(5), DATA_SIZE)
    return JacobianSupervision().losses(Nets(apply, bernoulli, first, 2), batch)


def test_a_student_equal_to_its_teacher_has_zero_loss(double):
    losses = perfect()
    for value in (*losses.groups.values(), *losses.terms.values()):
        assert (value.abs() < 1e-20).all()


def test_every_fault_has_its_term(double):
    uses_z = perfect(unused=0.5).terms
    assert all((uses_z[name] > 1e-4).all() for name in ("squared_error", "difference_error"))
    assert (uses_z["covariance"] > 0.1).all()
    assert (uses_z["code_error"] < 1e-20).all()
    other_scale = perfect(taught=2.0).terms
    assert (other_scale["code_error"] > 0.1).all()
    assert all((other_scale[n] < 1e-20).all() for n in other_scale if n != "code_error")


def test_constant_codes_have_a_gradient():
    z = torch.zeros(1, 4, 2, requires_grad=True)
    covariance_norm(random(1, 4, 3, seed=1).float(), z).sum().backward()
    assert (z.grad == 0).all()


def learned(steps):
    return uw.train(
        JacobianSupervision(),
        blobs(),
        first=first_stage(),
        steps=steps,
        batch=16,
        latents=2,
        architecture="small_dcgan",
        optimiser=Adam(lr=3e-3),
        device="cpu",
        progress=False,
    )[0]


def test_a_student_reconstructs_and_has_the_codes_of_its_teacher():
    first, model, images = first_stage()[0], learned(100), blobs().images(range(72))
    codes, noise = model.encode(images)
    assert codes.shape == (72, 4)
    assert (noise == -20).all()
    taught = first.encode(images)[0]
    for k in range(2):
        assert np.corrcoef(codes[:, k], taught[:, k])[0, 1] > 0.98
    pixels = images / 255
    error = np.square(model.decode(codes) - pixels).mean()
    assert error < 0.5 * np.square(pixels - pixels.mean(0)).mean()
    for name, value in model.first.parameters.items():
        assert torch.equal(value, first.parameters[name])


def test_codes_and_images_do_not_depend_on_their_batch():
    model, images = learned(1), blobs().images(range(12))
    codes, _ = model.encode(images)
    np.testing.assert_allclose(model.encode(images[3:5])[0], codes[3:5], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        model.decode(codes[3:5]), model.decode(codes)[3:5], rtol=1e-4, atol=1e-6
    )


def test_the_student_draws_by_sigmoids():
    with pytest.raises(UnknownNameError, check=about("likelihood", "gaussian")):
        second_runs([JacobianSupervision()], [0], likelihood="gaussian")
