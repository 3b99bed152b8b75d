"""SlowVAE: a prior for factors that change rarely and little between consecutive images."""

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unweave.data.pairs import PairRule, transition_rule
from unweave.errors import UnweaveError
from unweave.methods.base import MODEL, Losses, Nets, Strength
from unweave.methods.batch import Batch, Posterior
from unweave.methods.mixins import Pairs
from unweave.methods.vae import VAE

__all__ = ["SlowVAE", "expected_distance"]


@dataclass(frozen=True, kw_only=True)
class SlowVAE(Pairs, VAE):
    """SlowVAE: a VAE on pairs of images with a Laplace prior on the change between their codes.

        L = 2 r̄ + β KL̄(q(z|x) ‖ N(0, I)) + γ [CE₀₁ + CE₁₀ - H̄]

    for the frames x₀ and x₁ of a pair. Here r is E_q[-log p(x|z)], H is the entropy of q(z|x),
    bars are means over both frames, and CE is the cross-entropy to a Laplace distribution with
    rate λ around the mean of the other frame. CE₀₁ is for frame 1, with m = μ₁ - μ₀ and σ = σ₁,
    and CE₁₀ for frame 0:

        CE = Σ_l { λ [σ √(2/π) exp(-m² / 2σ²) + m erf(m / σ√2)] - log(λ/2) }

    Args:
        beta: Weight of the KL divergence to N(0, I).
        gamma: Weight of the transition term, γ.
        rate: Rate of the Laplace prior, λ; larger values favour smaller changes.
        consistent: Whether to use ½ (CE₀₁ + CE₁₀) - H̄, the mean KL divergence of both directions.
            The reference code sums cross-entropies but averages entropies, which is not a
            divergence.
        transitions: Rule for the second image: `laplace`, `uniform`, or `neighbours` in time.

    Notes:
        The reference code uses batches of 32 pairs; `Config.batch` counts pairs.

    References:
        Klindt et al., Towards Nonlinear Disentanglement in Natural Data with Temporal Sparse
        Coding, arXiv:2007.10930.
    """

    name = "slow_vae"
    label = "SlowVAE"
    symbols: ClassVar = {"rate": "λ"}

    beta: Strength = 1.0
    gamma: Strength = 10.0
    rate: Strength = 6.0
    consistent: bool = False
    transitions: str = "laplace"

    def check(self) -> None:
        if self.rate == 0:
            raise UnweaveError("rate of slow_vae must be above 0, got 0", subject="rate")
        transition_rule(self.transitions)

    def pair_rule(self) -> PairRule:
        return transition_rule(self.transitions)

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        frames = torch.cat([batch.images, batch.paired(self.name)], 1)
        elbo = self.elbo(nets, dataclasses.replace(batch, images=frames, partners=None))
        transition = self.transition(elbo.posterior)
        loss = 2 * elbo.reconstruction + self.beta * elbo.kl + self.gamma * transition
        terms = {"reconstruction": elbo.reconstruction, "kl": elbo.kl, "transition": transition}
        return Losses({MODEL: loss}, terms)

    def transition(self, frames: Posterior) -> Tensor:
        """Return the term weighted by γ, `[M]`; `frames` are all first, then all second frames."""
        mu, sigma = frames.mu, (frames.logvar / 2).exp()
        latents = mu.shape[-1]
        rate = self.per_model("rate").to(mu)
        # Cross-entropies in both directions: each frame around the mean of its partner.
        others = mu.roll(mu.shape[1] // 2, 1)
        distance = expected_distance(mu - others, sigma).sum(-1).mean(-1)
        cross_entropy = rate * distance - latents * (rate / 2).log()
        entropy = 0.5 * (frames.logvar + math.log(2 * math.pi * math.e)).sum(-1).mean(-1)
        return (1 if self.consistent else 2) * cross_entropy - entropy


def expected_distance(m: Tensor, sigma: Tensor) -> Tensor:
    """E|z| for z ~ N(m, σ²)."""
    scaled = m / sigma
    return (
        sigma * math.sqrt(2 / math.pi) * (-(scaled**2) / 2).exp()
        + m * (scaled / math.sqrt(2)).erf()
    )
