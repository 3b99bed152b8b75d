"""InfoGAN: a GAN with codes that can be recovered from its images."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from unweave.errors import UnweaveError
from unweave.kernels import unit
from unweave.methods.adversarial import (
    DISCRIMINATOR,
    OPTIMISER,
    discriminator_loss,
    discriminator_probabilities,
    generated,
    generator_loss,
    with_unknown,
)
from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups, NetworkSpec, Strength
from unweave.methods.batch import Batch, Posterior
from unweave.methods.settings import check_integer
from unweave.nets import dcgan
from unweave.nets.adam import Adam
from unweave.nets.layers import Linear, Spreads
from unweave.nets.network import Network

__all__ = ["InfoGAN", "information"]

BODY, READER = "body", "reader"


@dataclass(frozen=True, kw_only=True)
class InfoGAN(Method):
    """InfoGAN: a GAN trained so that some of its codes can be recovered from its images.

        L_G = E[-log σ(D(G(c, ε)))] - λ I                                        c, ε ~ N(0, I)
        L_D = ½ E[-log σ(D(x))] + ½ E[-log(1 - σ(D(G(c, ε))))] - λ I
        I   = E[log q(c|G(c, ε))] + H(c) ≤ I(c; G(c, ε))

    q is a Gaussian encoder; it shares the convolutions of the discriminator and is trained with
    it. Codes of a trained model are c followed by ε. Images carry no information about ε, so its
    encoding is the prior, with mean 0 and variance 1.

    Args:
        codes: Number of latents in c; the others are ε.
        lambda_info: Weight of the mutual information, λ.

    Notes:
        All codes are continuous. The generator has batch norm: in training, each batch is
        normalised by its own statistics; a trained generator uses those of a fixed batch from
        N(0, I). The discriminator and q normalise each image separately, since a code must not
        depend on the rest of the batch. All networks are updated together.

    References:
        Chen et al., InfoGAN: Interpretable Representation Learning by Information Maximizing
        Generative Adversarial Nets, arXiv:1606.03657.
    """

    name = "infogan"
    label = "InfoGAN"
    symbols: ClassVar = {"lambda_info": "λ"}
    architectures = dcgan.WIDTHS
    likelihoods = ("bernoulli",)

    codes: int = 5
    lambda_info: Strength = 1.0

    def check(self) -> None:
        check_integer(self, "codes", 1)

    def check_latents(self, latents: int) -> None:
        if latents <= self.codes:
            raise UnweaveError(
                f"latents must be above codes={self.codes}, since infogan also needs noise, "
                f"got {latents}",
                subject="latents",
            )

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        shape, width = spec.shape, dcgan.WIDTHS[spec.architecture]
        flat = dcgan.flat_size(shape, width)
        reader = Linear(flat, 2 * self.codes, "none", fan=(flat, self.codes))
        return {
            MODEL: {"decoder": dcgan.decoder(shape, spec.latents, width, "batch")},
            DISCRIMINATOR: {
                BODY: dcgan.body(shape, width, "instance"),
                DISCRIMINATOR: Network((Linear(flat, 1, "none"),)),
                READER: Network((reader, Spreads())),
            },
        }

    def extra_optimisers(self) -> Mapping[str, Adam]:
        return {DISCRIMINATOR: OPTIMISER}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        z = batch.stream("generator").normal(batch.images.shape[1], nets.latents)
        fakes = nets.decode(z).float().sigmoid()
        features = nets.apply[BODY](unit(batch.images, fakes.dtype)), nets.apply[BODY](fakes)
        real, fake = (nets.apply[DISCRIMINATOR](values).float() for values in features)
        bound = information(self._read(nets, features[1]), z[..., : self.codes])
        groups = {
            MODEL: generator_loss(fake) - self.lambda_info * bound,
            DISCRIMINATOR: discriminator_loss(real, fake) - self.lambda_info * bound,
        }
        return Losses(groups, {"information": bound, **discriminator_probabilities(real, fake)})

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        of_c = self._read(nets, nets.apply[BODY](images))
        return with_unknown(of_c, nets.latents - self.codes)

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        return generated(nets, codes)

    def _read(self, nets: Nets, features: Tensor) -> Posterior:
        """Return q(c|x)."""
        return Posterior(*nets.apply[READER](features).float().chunk(2, -1))


def information(posterior: Posterior, c: Tensor) -> Tensor:
    """E[log q(c|x)] + H(c) for c ~ N(0, I), a lower bound on I(c; x) in nats, `[M]`."""
    entropy = c.shape[-1] / 2 * math.log(2 * math.pi * math.e)
    return posterior.log_density(c).sum(-1).mean(-1) + entropy
