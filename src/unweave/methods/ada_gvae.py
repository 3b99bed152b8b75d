"""Ada-GVAE and Ada-ML-VAE: learning from pairs of images that share unknown factors."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.data.pairs import PairRule, WeakPairs
from unweave.methods.base import MODEL, Losses, Method, Nets, Strength
from unweave.methods.batch import Batch, Posterior
from unweave.methods.mixins import Pairs

__all__ = ["AdaGVAE", "AdaMLVAE"]


@dataclass(frozen=True, kw_only=True)
class AdaGVAE(Pairs, Method):
    """Ada-GVAE: average the posteriors of a pair in the latents that appear to be shared.

        δ_l = KL(q(z_l|x) ‖ q(z_l|x')) of each latent;   l is shared where δ_l < ½ (min δ + max δ)
        shared:  μ̄ = ½ (μ + μ'),  σ̄² = ½ (σ² + σ'²)  for both;   otherwise each keeps its own
        L = ½ Σ_pair { E_q̄[-log p(x|z)] + β KL(q̄(z|x) ‖ N(0, I)) }

    Args:
        beta: Weight of the KL divergence.
        changed: Largest number of factors that change in a pair; -1 samples it for each pair.

    References:
        Locatello et al., Weakly-Supervised Disentanglement Without Compromises, arXiv:2002.02886.
    """

    name = "ada_gvae"
    label = "Ada-GVAE"

    beta: Strength = 1.0
    changed: int = -1

    def pair_rule(self) -> PairRule:
        return WeakPairs(changed=self.changed)

    def average(self, one: Posterior, two: Posterior) -> Posterior:
        """Return the posterior that both images use for the shared latents."""
        variance = 0.5 * (one.logvar.exp() + two.logvar.exp())
        return Posterior(0.5 * (one.mu + two.mu), variance.log())

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        partners = batch.paired(self.name)
        one, two = nets.encode(batch.images), nets.encode(partners)
        shared, average = is_shared(one, two), self.average(one, two)
        halves = ((one, batch.images, "first"), (two, partners, "second"))
        reconstruction = kl = torch.zeros_like(one.mu[:, 0, 0])
        for own, images, place in halves:
            posterior = Posterior(
                torch.where(shared, average.mu, own.mu),
                torch.where(shared, average.logvar, own.logvar),
            )
            noise = batch.noise(f"posterior {place}", posterior.mu)
            z, divergence = posterior.sample_and_kl(noise)
            reconstruction = reconstruction + 0.5 * nets.reconstruction(z, images)
            kl = kl + 0.5 * divergence.mean(-1)
        loss = reconstruction + self.beta * kl
        return Losses({MODEL: loss}, {"reconstruction": reconstruction, "kl": kl})


@dataclass(frozen=True, kw_only=True)
class AdaMLVAE(AdaGVAE):
    """Ada-ML-VAE: like Ada-GVAE, but with a precision-weighted average of shared latents.

        σ̄² = 2 σ² σ'² / (σ² + σ'²),     μ̄ = ½ (μ / σ² + μ' / σ'²) σ̄²

    Args:
        beta: Weight of the KL divergence.
        changed: Largest number of factors that change in a pair; -1 samples it for each pair.

    References:
        Bouchacourt et al., Multi-Level Variational Autoencoder, arXiv:1705.08841; adaptive by
        Locatello et al., arXiv:2002.02886.
    """

    name = "ada_ml_vae"
    label = "Ada-ML-VAE"

    def average(self, one: Posterior, two: Posterior) -> Posterior:
        precision_one, precision_two = (-one.logvar).exp(), (-two.logvar).exp()
        variance = 2 / (precision_one + precision_two)
        mu = 0.5 * (one.mu * precision_one + two.mu * precision_two) * variance
        return Posterior(mu, variance.log())


def is_shared(one: Posterior, two: Posterior) -> Tensor:
    """Mask `[M, B, d]` of latents whose divergence is below the mid-range over all latents."""
    difference = two.mu - one.mu
    distance = (
        (one.logvar - two.logvar).exp()
        + difference**2 * (-two.logvar).exp()
        - 1
        + two.logvar
        - one.logvar
    )
    return distance < 0.5 * (distance.amin(-1, keepdim=True) + distance.amax(-1, keepdim=True))
