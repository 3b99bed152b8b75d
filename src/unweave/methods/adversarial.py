"""Losses and decoding shared by adversarial methods."""

import torch
from torch import Tensor
from torch.nn import functional as F

from unweave.methods.base import Nets
from unweave.methods.batch import Posterior
from unweave.nets.adam import Adam
from unweave.random import Stream

__all__ = [
    "DISCRIMINATOR",
    "OPTIMISER",
    "discriminator_loss",
    "discriminator_probabilities",
    "generated",
    "generator_loss",
    "with_unknown",
]

DISCRIMINATOR = "discriminator"
OPTIMISER = Adam(lr=1e-4, beta1=0.5)
"""Optimiser of discriminators."""
REFERENCE = 64
"""Number of reference codes for batch normalisation in a trained generator."""


def generator_loss(fake: Tensor) -> Tensor:
    """Non-saturating loss E[-log σ(D(fake))] `[M]` for logits `[M, B, 1]`."""
    return F.softplus(-fake).flatten(1).mean(-1)


def discriminator_loss(real: Tensor, fake: Tensor) -> Tensor:
    """½ E[-log σ(D(real))] + ½ E[-log(1 - σ(D(fake)))] `[M]` for logits `[M, B, 1]`."""
    return (F.softplus(-real) + F.softplus(fake)).flatten(1).mean(-1) / 2


def discriminator_probabilities(real: Tensor, fake: Tensor) -> dict[str, Tensor]:
    """Mean probability that images are real, by the discriminator, `[M]` each; ½ is undecided."""
    return {
        "judged_real": real.sigmoid().flatten(1).mean(-1),
        "judged_fake": fake.sigmoid().flatten(1).mean(-1),
    }


def with_unknown(known: Posterior, latents: int) -> Posterior:
    """Append `latents` unobserved latents to a posterior, each with its prior N(0, 1)."""
    unknown = known.mu.new_zeros(*known.mu.shape[:-1], latents)
    return Posterior(*(torch.cat([values, unknown], -1) for values in (known.mu, known.logvar)))


def generated(nets: Nets, codes: Tensor) -> Tensor:
    """Decode codes `[M, B, d]` to logits with a trained generator that uses batch norm.

    Normalisation uses the statistics of a fixed batch of codes from N(0, I), so that the image of
    a code does not depend on the other codes.
    """
    seed = torch.zeros((), dtype=torch.int64, device=codes.device)
    fixed = Stream(seed, "reference").normal(REFERENCE, codes.shape[-1]).to(codes.dtype)
    both = torch.cat([fixed.expand(len(codes), -1, -1), codes], 1)
    return nets.apply["decoder"](both, reference=REFERENCE)[:, REFERENCE:]
