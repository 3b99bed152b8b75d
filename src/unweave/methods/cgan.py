"""The conditional GAN, conditioned on the code itself; a baseline for MS-GAN."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.methods.adversarial import DISCRIMINATOR, generated
from unweave.methods.base import MODEL, Nets, NetworkGroups, NetworkSpec, Stage
from unweave.methods.ms_gan import MSGAN, conditional_discriminator
from unweave.nets import dcgan

__all__ = ["CGAN"]


@dataclass(frozen=True, kw_only=True)
class CGAN(MSGAN):
    """CGAN: a conditional GAN on the codes of trained models of another method.

        L_G = E[-log σ(D(G(c, ε), c))]                                   c ~ q(c|x),  ε ~ N(0, I)
        L_D = ½ E[-log σ(D(x, c))] + ½ E[-log(1 - σ(D(G(c, ε), c)))]

    Like MS-GAN, but conditioned on C directly: the generator is a DCGAN with batch norm on C and
    noise, concatenated, and the discriminator gets C as constant channels.

    Notes:
        In training, each batch is normalised by its own statistics. A trained generator uses the
        statistics of a fixed batch from N(0, I), so that the image of a code does not depend on
        the other codes. The paper does not state how its discriminator receives C.

    References:
        Mirza & Osindero, Conditional Generative Adversarial Nets, arXiv:1411.1784; a baseline in
        Srivastava et al., arXiv:2010.13187.
    """

    name = "cgan"
    label = "CGAN"

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        width, size = dcgan.WIDTHS[spec.architecture], spec.base_latents + spec.latents
        return {
            MODEL: {"decoder": dcgan.decoder(spec.shape, size, width, "batch")},
            DISCRIMINATOR: {
                DISCRIMINATOR: conditional_discriminator(spec.shape, spec.base_latents, width)
            },
        }

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        return generated(nets, codes)

    def condition(self, first: Stage, c: Tensor) -> Tensor:
        del first
        return c

    def generate(self, nets: Nets, condition: Tensor, noise: Tensor) -> Tensor:
        return nets.decode(torch.cat([condition, noise], -1))
