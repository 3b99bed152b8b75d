"""MS-VAE: a second stage that adds missing detail to the blurry images of a disentangled model."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.kernels import unit
from unweave.methods.base import (
    FIRST,
    MODEL,
    Losses,
    Nets,
    NetworkGroups,
    NetworkSpec,
    Stage,
    Strength,
)
from unweave.methods.batch import Batch, Posterior
from unweave.methods.mixins import SecondStage
from unweave.methods.settings import check_choice, check_integer
from unweave.methods.vae import VAE, Elbo
from unweave.nets import dcgan
from unweave.nets.adam import Adam

__all__ = ["MSVAE"]

MAX_DRAWS = 1_000
CONDITIONS = ("image", "logits", "code")
MIXINGS = ("adain", "pixelwise", "concat")


@dataclass(frozen=True, kw_only=True)
class MSVAE(SecondStage, VAE):
    """MS-VAE: a conditional VAE on top of frozen trained models of another method.

        L = E_q[-log p(x|y, z)] + β KL(q(z|x - y) ‖ N(0, I)),     y = E p(y|c),  c ~ q(c|x)

    The first stage has learned C and generates blurry images Y. The second stage generates X from
    Y and a code Z of the missing detail. Given Y, C and Z are independent, so that C keeps its
    meaning. Codes of a trained model are C followed by Z. Each image has one c, which is sampled
    once.

    Args:
        beta: Weight of the KL divergence, β (1 in the paper).
        condition: Input of the generator: `"image"` is Y; `"logits"` the logits of Y, as in the
            authors' code; `"code"` is C (the paper's ablations M2 and M3).
        mixing: Conditioning of the generator on Z: `"adain"` normalises each channel of each
            layer by Z; `"pixelwise"` each pixel, as in the authors' code; `"concat"` appends Z to
            the input (the paper's ablation M2).
        draws: Number of samples c per image; the paper uses 10 for CelebA.
        together: Whether the first stage is trained jointly, by its own penalty and the likelihood
            of X (the paper's ablation M1); its model should then have been trained for 0 steps.

    Notes:
        The authors' code weights the likelihood of greyscale images by 3.

    References:
        Srivastava et al., Improving the Reconstruction of Disentangled Representation Learners via
        Multi-Stage Modeling, arXiv:2010.13187.
    """

    name = "ms_vae"
    label = "MS-VAE"
    architectures = dcgan.WIDTHS

    beta: Strength = 1.0
    condition: str = "image"
    mixing: str = "adain"
    draws: int = 1
    together: bool = False

    def check(self) -> None:
        check_choice(self, "condition", CONDITIONS)
        check_choice(self, "mixing", MIXINGS)
        check_integer(self, "draws", 1, MAX_DRAWS)

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        shape, latents, width = spec.shape, spec.latents, dcgan.WIDTHS[spec.architecture]
        inputs = spec.base_latents if self.condition == "code" else None
        adaptive, pixelwise = self.mixing != "concat", self.mixing == "pixelwise"
        return {
            MODEL: {
                "encoder": dcgan.residual_encoder(shape, latents, width),
                "decoder": dcgan.generator(shape, inputs, latents, width, adaptive, pixelwise),
            }
        }

    def extra_optimisers(self) -> Mapping[str, Adam]:
        return {FIRST: Adam()} if self.together else {}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        first = self.first_stage(nets)
        with nullcontext() if self.together else torch.no_grad():
            posterior = first.encode(batch.images)
            c, kl_of_c = posterior.sample_and_kl(self._noise(batch, posterior.mu))
            blurry = self.first_image(first, c)
        of_z = self.posterior(nets, batch.images, blurry)
        z, kl_of_z = of_z.sample_and_kl(batch.noise("posterior", of_z.mu))
        decoded = self.generate(nets, blurry, c, z)
        reconstruction = nets.likelihood(decoded, batch.images).mean(-1)
        kl = kl_of_z.mean(-1)
        loss = reconstruction + self.beta * kl
        terms = {"reconstruction": reconstruction, "kl": kl}
        if not self.together:
            return Losses({MODEL: loss}, terms)
        of_first = Elbo(posterior, c, reconstruction, kl_of_c.mean(-1))
        loss = loss + penalty(first, of_first, batch)
        return Losses({MODEL: loss, FIRST: loss}, {**terms, "kl_of_c": of_first.kl})

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        first = self.first_stage(nets)
        of_c = first.encode(images)
        of_z = self.posterior(nets, images, self.first_image(first, of_c.mu))
        pairs = zip((of_c.mu, of_c.logvar), (of_z.mu, of_z.logvar), strict=True)
        return Posterior(*(torch.cat(pair, -1) for pair in pairs))

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        first = self.first_stage(nets)
        c, z = codes.tensor_split([first.latents], -1)
        return self.generate(nets, self.first_image(first, c), c, z)

    def _noise(self, batch: Batch, like: Tensor) -> Tensor:
        """Return the noise of c: fixed for each image, unless the stages are trained together."""
        if self.together:
            return batch.noise("first stage", like)
        return self.noise_of_images(batch, like, self.draws)

    def first_image(self, first: Stage, c: Tensor) -> Tensor:
        """Return Y, `[M, B, H, W, C]`, for codes of the first stage."""
        decoded = first.decode(c)
        return decoded.float() if self.condition == "logits" else first.mean(decoded)

    def posterior(self, nets: Nets, images: Tensor, blurry: Tensor) -> Posterior:
        """Return q(z|x - y)."""
        return nets.encode(unit(images, blurry.dtype) - blurry)

    def generate(self, nets: Nets, blurry: Tensor, c: Tensor, z: Tensor) -> Tensor:
        """Return logits or means of X."""
        inputs = c if self.condition == "code" else blurry
        if self.mixing == "concat":
            extra = z if inputs.ndim == z.ndim else z[:, :, None, None]
            inputs = torch.cat([inputs, extra.expand(*inputs.shape[:-1], -1)], -1)
        return nets.apply["decoder"](inputs, z)


def penalty(first: Stage, elbo: Elbo, batch: Batch) -> Tensor:
    """Return the penalty that the method of the first stage adds to the likelihood, `[M]`."""
    if not isinstance(first.method, VAE) or type(first.method).losses is not VAE.losses:
        raise UnweaveError(
            f"together=True needs a first stage whose penalty can be trained jointly, such as "
            f"beta_vae, got {first.method.name}",
            subject="together",
        )
    return first.method.regularizer(elbo, batch)
