"""InfoGAN: a GAN some of whose codes can be read from its images."""

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
    generated,
    generator_loss,
    judgements,
    with_unknown,
)
from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups, NetworkSpec, Strength
from unweave.methods.batch import Batch
from unweave.methods.posterior import Posterior
from unweave.methods.settings import check_whole
from unweave.nets import dcgan
from unweave.nets.adam import Adam
from unweave.nets.layers import Linear, Spreads
from unweave.nets.network import Network

__all__ = ["InfoGAN", "information"]

BODY, READER = "body", "reader"


@dataclass(frozen=True, kw_only=True)
class InfoGAN(Method):
    """InfoGAN: the generator keeps in its images what some of its codes were.

        L_G = E[-log σ(D(G(c, ε)))] - λ I                                        c, ε ~ N(0, I)
        L_D = ½ E[-log σ(D(x))] + ½ E[-log(1 - σ(D(G(c, ε))))] - λ I
        I   = E[log q(c|G(c, ε))] + H(c) ≤ I(c; G(c, ε))

    q is Gaussian and reads codes from images; it has the convolutions of the discriminator and is
    trained with it. There is no stage before. Codes of a trained model are c and then ε, of which
    an image tells nothing: encoded, it is 0 with the variance 1 of its prior.

    Args:
        codes: How many of the latents are c; the others are ε.
        lambda_info: λ.

    Notes:
        All codes are continuous. The generator has batch norm: in training, batches are normalised
        by themselves, and a trained one normalises as in one batch from N(0, I) that is always the
        same. Discriminator and q normalise every image by itself, since a code must not depend on
        the batch that an image is in. Both are updated together.

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
        check_whole(self, "codes", 1)

    def check_latents(self, latents: int) -> None:
        if latents <= self.codes:
            raise UnweaveError(
                f"infogan has {self.codes} codes and needs noise besides, but got {latents=}"
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
        drawn = batch.stream("generator").normal(batch.images.shape[1], nets.latents)
        fakes = nets.decode(drawn).float().sigmoid()
        seen = nets.apply[BODY](unit(batch.images, fakes.dtype)), nets.apply[BODY](fakes)
        real, fake = (nets.apply[DISCRIMINATOR](features).float() for features in seen)
        told = information(self._read(nets, seen[1]), drawn[..., : self.codes])
        groups = {
            MODEL: generator_loss(fake) - self.lambda_info * told,
            DISCRIMINATOR: discriminator_loss(real, fake) - self.lambda_info * told,
        }
        return Losses(groups, {"information": told, **judgements(real, fake)})

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        of_c = self._read(nets, nets.apply[BODY](images))
        return with_unknown(of_c, nets.latents - self.codes)

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        return generated(nets, codes)

    def _read(self, nets: Nets, features: Tensor) -> Posterior:
        """q(c|x)."""
        return Posterior(*nets.apply[READER](features).float().chunk(2, -1))


def information(posterior: Posterior, c: Tensor) -> Tensor:
    """E[log q(c|x)] + H(c) for c ~ N(0, I), a lower bound of I(c; x) in nats, `[M]`."""
    entropy = c.shape[-1] / 2 * math.log(2 * math.pi * math.e)
    return posterior.log_density(c).sum(-1).mean(-1) + entropy
