"""The conditional GAN of MS-GAN's comparison: the code itself in place of a blurry image."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.methods.adversarial import DISCRIMINATOR, generated
from unweave.methods.base import MODEL, Nets, NetworkGroups, NetworkSpec, Stage
from unweave.methods.ms_gan import MSGAN, judge
from unweave.nets import dcgan

__all__ = ["CGAN"]


@dataclass(frozen=True, kw_only=True)
class CGAN(MSGAN):
    """CGAN: a conditional GAN on the codes of trained models of another method.

        L_G = E[-log σ(D(G(c, ε), c))]                                   c ~ q(c|x),  ε ~ N(0, I)
        L_D = ½ E[-log σ(D(x, c))] + ½ E[-log(1 - σ(D(G(c, ε), c)))]

    As MS-GAN, but nothing comes between C and X: the generator is the DCGAN's, on C and noise side
    by side, with batch norm, and the discriminator sees C as channels of one value each.

    Notes:
        In training, batches are normalised by themselves. A trained generator normalises codes as
        in one batch from N(0, I) that is always the same, so that what becomes of a code does not
        depend on the others. The paper leaves open how its discriminator sees C.

    References:
        Mirza & Osindero, Conditional Generative Adversarial Nets, arXiv:1411.1784; as compared
        with in Srivastava et al., arXiv:2010.13187.
    """

    name = "cgan"
    label = "CGAN"

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        width, size = dcgan.WIDTHS[spec.architecture], spec.base_latents + spec.latents
        return {
            MODEL: {"decoder": dcgan.decoder(spec.shape, size, width, "batch")},
            DISCRIMINATOR: {DISCRIMINATOR: judge(spec.shape, spec.base_latents, width)},
        }

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        return generated(nets, codes)

    def given(self, first: Stage, c: Tensor) -> Tensor:
        del first
        return c

    def generate(self, nets: Nets, given: Tensor, noise: Tensor) -> Tensor:
        return nets.decode(torch.cat([given, noise], -1))
