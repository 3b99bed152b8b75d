"""Tiny generators and discriminators, and what a discriminator's logits cost, in plain numbers."""

import math

from tests.methods.second_stages import BEFORE, LATENTS
from tests.methods.small_fleet import IMAGES, mean, sample
from unweave.methods import CGAN, MSGAN, InfoGAN
from unweave.nets.layers import Conv, ConvTranspose, Linear, Reshape, Spreads
from unweave.nets.network import Network
from unweave.nets.norms import AdaptiveNorm
from unweave.random import Stream

CODES = 2
"""Of InfoGAN's latents, those that can be read."""


def drawn_codes(one, seed, step):
    """Of each image of one model: itself, its code C as drawn, and the generator's noise."""
    noise = Stream(seed, "generator", step).normal(IMAGES, LATENTS)
    for b in range(IMAGES):
        image = one.images[:, b : b + 1]
        q = one.nets().first.encode(image)
        own = Stream(seed, "first stage").normal(one.indices[0, b : b + 1], BEFORE)
        c = sample(q.mu.flatten().tolist(), q.logvar.flatten().tolist(), own[0].tolist())
        yield image, c, noise[b]


def judge(channels):
    return Network((Conv(channels, 2, 2, relu=False), Reshape((8,)), Linear(8, 1, "none")))


NETWORKS = {
    MSGAN: {
        "decoder": Network(
            (
                Conv(1, 2, 2, relu=False),
                AdaptiveNorm(2, LATENTS, "none"),
                ConvTranspose(2, 1, 2, relu=False),
            )
        ),
        "discriminator": judge(2),
    },
    CGAN: {
        "decoder": Network((Linear(BEFORE + LATENTS, 16, "none"), Reshape((4, 4, 1)))),
        "discriminator": judge(1 + BEFORE),
    },
    InfoGAN: {
        "decoder": Network((Linear(LATENTS, 16, "none"), Reshape((4, 4, 1)))),
        "body": Network((Reshape((16,)), Linear(16, 7, "tanh"))),
        "discriminator": Network((Linear(7, 1, "none"),)),
        "reader": Network((Linear(7, 2 * CODES, "none"), Spreads())),
    },
}
GROUPS = {
    MSGAN: {"model": ["decoder"], "discriminator": ["discriminator"]},
    CGAN: {"model": ["decoder"], "discriminator": ["discriminator"]},
    InfoGAN: {"model": ["decoder"], "discriminator": ["body", "discriminator", "reader"]},
}


def three(kind):
    """Three of a method."""
    if kind is InfoGAN:
        return [kind(codes=CODES, lambda_info=strength) for strength in (0.5, 1.0, 2.0)]
    return [kind()] * 3


def probability(logit):
    return 1 / (1 + math.exp(-logit))


def judged(real, fake):
    """Losses and terms of a batch of logits, by the textbook."""
    of_real = mean(-math.log(probability(logit)) for logit in real)
    of_fake = mean(-math.log(1 - probability(logit)) for logit in fake)
    return {
        "model": mean(-math.log(probability(logit)) for logit in fake),
        "discriminator": (of_real + of_fake) / 2,
        "judged_real": mean(map(probability, real)),
        "judged_fake": mean(map(probability, fake)),
    }
