"""MS-GAN: an adversarial second stage that adds missing detail to blurry images."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.kernels import unit
from unweave.methods.adversarial import (
    DISCRIMINATOR,
    OPTIMISER,
    discriminator_loss,
    discriminator_probabilities,
    generator_loss,
    with_unknown,
)
from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups, NetworkSpec, Stage
from unweave.methods.batch import Batch, Posterior
from unweave.methods.mixins import KnownFactors, SecondStage
from unweave.nets import dcgan
from unweave.nets.adam import Adam
from unweave.nets.network import Network

__all__ = ["MSGAN"]


@dataclass(frozen=True, kw_only=True)
class MSGAN(SecondStage, Method):
    """MS-GAN: a conditional GAN on top of frozen trained models of another method.

        L_G = E[-log σ(D(G(y, ε), y))]                    y = E p(y|c),  c ~ q(c|x),  ε ~ N(0, I)
        L_D = ½ E[-log σ(D(x, y))] + ½ E[-log(1 - σ(D(G(y, ε), y)))]

    The first stage, such as a β-VAE with few latents, has learned C and generates blurry images Y.
    The generator adds the detail; the noise ε controls the normalisation of every layer. The
    discriminator receives an image and its Y as channels. Each image has one c, which is sampled
    once. Codes of a trained model are C followed by ε. Images carry no information about ε, so its
    encoding is the prior, with mean 0 and variance 1. The paper uses 100 latents for ε, and Adam
    with learning rate 0.0001 and β₁ = 0.5 for both networks. Here the discriminator uses these
    settings, and the generator the optimiser of the run. If the first stage is `FromFactors`, C
    consists of the known factors of each image.

    Notes:
        Both networks use the same batch and are updated together, as in the authors' code. The
        discriminator normalises batches of real and of generated images separately.

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
            MODEL: {"decoder": dcgan.generator(shape, None, spec.latents, width)},
            DISCRIMINATOR: {DISCRIMINATOR: conditional_discriminator(shape, shape[2], width)},
        }

    def extra_optimisers(self) -> Mapping[str, Adam]:
        return {DISCRIMINATOR: OPTIMISER}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        first, images = self.first_stage(nets), batch.images
        with torch.no_grad():
            c = self._first_code(first, batch)
            condition = self.condition(first, c)
        noise = batch.stream("generator").normal(images.shape[1], nets.latents).to(c.dtype)
        fakes = self.generate(nets, condition, noise).float().sigmoid()
        real = self._discriminate(nets, unit(images, fakes.dtype), condition)
        fake = self._discriminate(nets, fakes, condition)
        return Losses(
            {MODEL: generator_loss(fake), DISCRIMINATOR: discriminator_loss(real, fake)},
            discriminator_probabilities(real, fake),
        )

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        return with_unknown(self.first_stage(nets).encode(images), nets.latents)

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        first = self.first_stage(nets)
        c, noise = codes.tensor_split([first.latents], -1)
        return self.generate(nets, self.condition(first, c), noise)

    def condition(self, first: Stage, c: Tensor) -> Tensor:
        """Return the input of both networks for codes of the first stage: Y, `[M, B, H, W, C]`."""
        return first.mean(first.decode(c))

    def generate(self, nets: Nets, condition: Tensor, noise: Tensor) -> Tensor:
        """Return logits of images."""
        return nets.apply["decoder"](condition, noise)

    def _first_code(self, first: Stage, batch: Batch) -> Tensor:
        """Return one c per image, `[M, B, d]`: its known factors, or a sample fixed per image."""
        if isinstance(first.method, KnownFactors):
            assert batch.factors is not None, "the batch has no factors"
            return batch.factors
        posterior = first.encode(batch.images)
        return posterior.sample(self.noise_of_images(batch, posterior.mu))

    def _discriminate(self, nets: Nets, images: Tensor, condition: Tensor) -> Tensor:
        """Return logits of being real, `[M, B, 1]`."""
        extra = condition if condition.ndim == images.ndim else condition[:, :, None, None]
        inputs = [images, extra.to(images.dtype).expand(*images.shape[:-1], -1)]
        return nets.apply[DISCRIMINATOR](torch.cat(inputs, -1)).float()


def conditional_discriminator(
    shape: tuple[int, int, int], extra_channels: int, width: int
) -> Network:
    """Build a discriminator of images with extra channels."""
    height, wide, channels = shape
    return dcgan.encoder((height, wide, channels + extra_channels), 1, width, "batch")
