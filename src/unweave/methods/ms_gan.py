"""MS-GAN: an adversarial second stage adds to a blurry image what it lacks."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.kernels import unit
from unweave.methods.adversarial import (
    DISCRIMINATOR,
    OPTIMISER,
    discriminator_loss,
    generator_loss,
    judgements,
    with_unknown,
)
from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups, NetworkSpec, Stage
from unweave.methods.batch import Batch
from unweave.methods.first_stage import drawn_code
from unweave.methods.mixins import SecondStage
from unweave.methods.posterior import Posterior
from unweave.nets import dcgan
from unweave.nets.adam import Adam
from unweave.nets.network import Network
from unweave.nets.second_stage import generator

__all__ = ["MSGAN"]


@dataclass(frozen=True, kw_only=True)
class MSGAN(SecondStage, Method):
    """MS-GAN: a conditional GAN over trained models of another method, which stay as they are.

        L_G = E[-log σ(D(G(y, ε), y))]                    y = E p(y|c),  c ~ q(c|x),  ε ~ N(0, I)
        L_D = ½ E[-log σ(D(x, y))] + ½ E[-log(1 - σ(D(G(y, ε), y)))]

    The first stage, such as a β-VAE with few latents, has learned C and draws blurry images Y; the
    generator adds the rest, of which the noise ε says how every layer is normalised. The
    discriminator sees an image and its Y side by side. Each image has one c, drawn once and for
    all. Codes of a trained model are C and then ε, of which an image tells nothing: encoded, it is
    0 with the variance 1 of its prior. The paper has 100 latents for ε, and Adam with a learning
    rate of 0.0001 and β₁ = 0.5 for both networks; here that is the discriminator's, and the
    generator's is the optimiser of the run. Over `FromFactors` C is given with the images.

    Notes:
        Both networks see the same batch and are updated together, as in the authors' code. The
        discriminator normalises real and generated images each by their own batch.

    References:
        Srivastava et al., Improving the Reconstruction of Disentangled Representation Learners via
        Multi-Stage Modeling, arXiv:2010.13187.
    """

    name = "ms_gan"
    label = "MS-GAN"
    architectures = dcgan.WIDTHS
    likelihoods = ("bernoulli",)

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        shape, width = spec.shape, dcgan.WIDTHS[spec.architecture]
        return {
            MODEL: {"decoder": generator(shape, None, spec.latents, width)},
            DISCRIMINATOR: {DISCRIMINATOR: judge(shape, shape[2], width)},
        }

    def extra_optimisers(self) -> Mapping[str, Adam]:
        return {DISCRIMINATOR: OPTIMISER}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        first, images = self.first_stage(nets), batch.images
        with torch.no_grad():
            c = drawn_code(first, batch)
            given = self.given(first, c)
        noise = batch.stream("generator").normal(images.shape[1], nets.latents).to(c.dtype)
        fakes = self.generate(nets, given, noise).float().sigmoid()
        real = self._judged(nets, unit(images, fakes.dtype), given)
        fake = self._judged(nets, fakes, given)
        return Losses(
            {MODEL: generator_loss(fake), DISCRIMINATOR: discriminator_loss(real, fake)},
            judgements(real, fake),
        )

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        return with_unknown(self.first_stage(nets).encode(images), nets.latents)

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        first = self.first_stage(nets)
        c, noise = codes.tensor_split([first.latents], -1)
        return self.generate(nets, self.given(first, c), noise)

    def given(self, first: Stage, c: Tensor) -> Tensor:
        """What both networks know of codes of the first stage: Y, `[M, B, H, W, C]`."""
        return first.mean(first.decode(c))

    def generate(self, nets: Nets, given: Tensor, noise: Tensor) -> Tensor:
        """Logits of images."""
        return nets.apply["decoder"](given, noise)

    def _judged(self, nets: Nets, images: Tensor, given: Tensor) -> Tensor:
        """Logits of being real, `[M, B, 1]`."""
        beside = given if given.ndim == images.ndim else given[:, :, None, None]
        seen = [images, beside.to(images.dtype).expand(*images.shape[:-1], -1)]
        return nets.apply[DISCRIMINATOR](torch.cat(seen, -1)).float()


def judge(shape: tuple[int, int, int], beside: int, width: int) -> Network:
    """The discriminator of images with some channels beside theirs."""
    height, wide, channels = shape
    return dcgan.encoder((height, wide, channels + beside), 1, width, "batch")
