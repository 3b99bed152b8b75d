"""FactorVAE: penalise the total correlation, estimated by a discriminator."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.methods.base import MODEL, Losses, Nets, NetworkGroups, Strength
from unweave.methods.batch import Batch
from unweave.methods.settings import check_integer
from unweave.methods.vae import VAE
from unweave.nets.adam import Adam
from unweave.nets.architectures import discriminator
from unweave.random import Stream

__all__ = ["FactorVAE", "permute_dims"]

DISCRIMINATOR = "discriminator"
MIN_PROBABILITY = 1e-6


@dataclass(frozen=True, kw_only=True)
class FactorVAE(VAE):
    """FactorVAE: a discriminator distinguishes codes from codes with shuffled dimensions.

        L   = E_q[-log p(x|z)] + KL + γ E[D_0(z) - D_1(z)]
        L_D = -½ E log softmax(D(z))_0 - ½ E log softmax(D(z̃))_1

    where z̃ is z with each latent permuted over the batch independently, and D has two logits.
    Both networks use the same batch and are updated together, as in disentanglement_lib.

    Args:
        gamma: Weight of the total correlation; the 12,600-model study uses 10, 20, 30, 40, 50,
            100.
        width: Width of the discriminator's six hidden layers, 1000 as published. Narrower layers
            make steps faster.

    Notes:
        Kim & Mnih sample a second batch for z̃. In disentanglement_lib, both optimisers increment
        the same global step, so its 300,000 steps are 150,000 updates of each; a step here
        updates both.

    References:
        Kim & Mnih, Disentangling by Factorising, arXiv:1802.05983.
    """

    name = "factor_vae"
    label = "FactorVAE"
    training_only = (DISCRIMINATOR,)

    saved_if_set = ("width",)

    gamma: Strength = 35.0
    width: int = 1000

    def check(self) -> None:
        check_integer(self, "width", 1, 4096)

    def extra_networks(self, latents: int) -> NetworkGroups:
        return {DISCRIMINATOR: {DISCRIMINATOR: discriminator(latents, width=self.width)}}

    def extra_optimisers(self) -> Mapping[str, Adam]:
        return {DISCRIMINATOR: Adam(lr=1e-4, beta1=0.5, beta2=0.9)}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        elbo = self.elbo(nets, batch)
        shuffled = permute_dims(elbo.z.detach(), batch.stream("permute"))
        both = nets.apply[DISCRIMINATOR](torch.cat([elbo.z, shuffled], 1)).float()
        real, permuted = both.chunk(2, 1)
        total_correlation = (real[..., 0] - real[..., 1]).mean(-1)
        loss = elbo.reconstruction + elbo.kl + self.gamma * total_correlation
        discriminator_loss = -0.5 * (log_probability(real, 0) + log_probability(permuted, 1))
        return Losses(
            {MODEL: loss, DISCRIMINATOR: discriminator_loss},
            {
                "reconstruction": elbo.reconstruction,
                "kl": elbo.kl,
                "total_correlation": total_correlation,
            },
        )


def permute_dims(z: Tensor, stream: Stream) -> Tensor:
    """Shuffle each latent `z[m, :, l]` over the batch, independently of the others."""
    order = stream.words(z.shape[1], z.shape[2]).argsort(1)
    return z.gather(1, order)


def log_probability(logits: Tensor, label: int) -> Tensor:
    """E log p(label) over the batch, with p clamped to [1e-6, 1 - 1e-6] as in the protocol."""
    probability = logits.softmax(-1)[..., label]
    return probability.clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY).log().mean(-1)
