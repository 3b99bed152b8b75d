"""What methods share that train a generator against a discriminator."""

import torch
from torch import Tensor
from torch.nn import functional as F

from unweave.methods.base import Nets
from unweave.methods.posterior import Posterior
from unweave.nets.adam import Adam
from unweave.random import Stream

__all__ = [
    "DISCRIMINATOR",
    "OPTIMISER",
    "discriminator_loss",
    "generated",
    "generator_loss",
    "judgements",
    "with_unknown",
]

DISCRIMINATOR = "discriminator"
OPTIMISER = Adam(lr=1e-4, beta1=0.5)
"""Of discriminators."""
REFERENCE = 64
"""Codes by which batches are normalised when a trained generator decodes."""


def generator_loss(fake: Tensor) -> Tensor:
    """E[-log σ(D(fake))], the loss that does not saturate, of logits `[M, B, 1]`, `[M]`."""
    return F.softplus(-fake).flatten(1).mean(-1)


def discriminator_loss(real: Tensor, fake: Tensor) -> Tensor:
    """½ E[-log σ(D(real))] + ½ E[-log(1 - σ(D(fake)))] of logits `[M, B, 1]`, `[M]`."""
    return (F.softplus(-real) + F.softplus(fake)).flatten(1).mean(-1) / 2


def judgements(real: Tensor, fake: Tensor) -> dict[str, Tensor]:
    """How likely the discriminator takes images to be real, `[M]` each; ½ if it cannot tell."""
    return {
        "judged_real": real.sigmoid().flatten(1).mean(-1),
        "judged_fake": fake.sigmoid().flatten(1).mean(-1),
    }


def with_unknown(known: Posterior, latents: int) -> Posterior:
    """Codes and so many more, of which nothing is known but that they are N(0, 1)."""
    unknown = known.mu.new_zeros(*known.mu.shape[:-1], latents)
    return Posterior(*(torch.cat([of, unknown], -1) for of in (known.mu, known.logvar)))


def generated(nets: Nets, codes: Tensor) -> Tensor:
    """What a trained generator with batch norm makes of codes `[M, B, d]`: logits.

    They are normalised as in a batch of codes from N(0, I), which is always the same, so that what
    becomes of a code does not depend on the others.
    """
    seed = torch.zeros((), dtype=torch.int64, device=codes.device)
    usual = Stream(seed, "reference").normal(REFERENCE, codes.shape[-1]).to(codes.dtype)
    both = torch.cat([usual.expand(len(codes), -1, -1), codes], 1)
    return nets.apply["decoder"](both, reference=REFERENCE)[:, REFERENCE:]
