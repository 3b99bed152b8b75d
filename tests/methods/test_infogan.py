"""InfoGAN against the formula, its bound of the information, and what can be read from images."""

import math

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.second_stages import blobs
from tests.methods.small_fleet import CODES, IMAGES, judged, mean, random
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.methods import InfoGAN, Posterior
from unweave.methods.base import NetworkSpec
from unweave.methods.infogan import information
from unweave.models.config import Config
from unweave.nets.adam import Adam


def textbook(fleet, m, method):
    one, codes = fleet.alone(m), fleet.generator_noise(m)
    apply = one.nets().apply
    real, fake, told = [], [], []
    for b in range(IMAGES):
        drawn = apply["decoder"](codes[None, b : b + 1].double()).sigmoid()
        real.append(apply["discriminator"](apply["body"](one.images[:, b : b + 1])).item())
        fake.append(apply["discriminator"](apply["body"](drawn)).item())
        read = apply["reader"](apply["body"](drawn)).flatten().tolist()
        total = 0.0
        for c, mu, logvar in zip(codes[b].tolist(), read[:CODES], read[CODES:], strict=False):
            square = (c - mu) ** 2 / math.exp(logvar)
            total += -0.5 * (square + logvar + math.log(2 * math.pi))
            total += 0.5 * math.log(2 * math.pi * math.e)
        told.append(total)
    values = judged(real, fake)
    values["information"] = mean(told)
    for group in ("model", "discriminator"):
        values[group] -= method.lambda_info * mean(told)
    return values


def test_the_bound_is_the_information_for_the_true_posterior():
    """x = c + n with noise of variance s: I(c; x) = ½ log(1 + 1/s)."""
    s, count = 0.25, 200_000
    c = random(1, count, 1, seed=1)
    x = c + math.sqrt(s) * random(1, count, 1, seed=2)
    exact = Posterior(x / (1 + s), torch.full_like(x, math.log(s / (1 + s))))
    assert information(exact, c).item() == pytest.approx(0.5 * math.log(1 + 1 / s), abs=0.01)
    worse = Posterior(x, torch.full_like(x, math.log(s)))
    assert information(worse, c).item() < information(exact, c).item() - 0.05


def test_an_uninformed_encoder_has_zero_information():
    c = random(1, 200_000, 3, seed=1)
    nothing = Posterior(torch.zeros_like(c), torch.zeros_like(c))
    assert information(nothing, c).item() == pytest.approx(0, abs=0.01)


def test_codes_must_leave_room_for_noise():
    with pytest.raises(UnweaveError, check=about("latents")):
        Config(method=InfoGAN(codes=5), latents=5)
    with pytest.raises(UnweaveError, check=about("codes", 0)):
        InfoGAN(codes=0)


def test_a_reader_shares_the_body_of_the_discriminator():
    networks = InfoGAN(codes=6).networks(NetworkSpec("dcgan", (64, 64, 3), 106, 0))[
        "discriminator"
    ]
    assert list(networks) == ["body", "discriminator", "reader"]
    assert networks["discriminator"].shapes["0.weight"] == (8192, 1)
    assert networks["reader"].shapes["0.weight"] == (8192, 12)


class Quick(InfoGAN):
    """Whose discriminator learns as quickly as its generator."""

    def extra_optimisers(self):
        return {"discriminator": Adam(lr=1e-3, beta1=0.5)}


def test_codes_can_be_read_from_images_once_it_has_learned():
    model = uw.train(
        Quick(codes=1),
        blobs(),
        steps=150,
        batch=16,
        latents=4,
        architecture="small_dcgan",
        optimiser=Adam(lr=1e-3, beta1=0.5),
        device="cpu",
        progress=False,
    )[0]
    codes = random(200, 4, seed=1).float().numpy()
    found, _ = model.encode(model.decode(codes))
    assert np.corrcoef(codes[:, 0], found[:, 0])[0, 1] > 0.8
