"""MS-VAE: a second stage adds to a disentangled, blurry image what it lacks."""

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
from unweave.methods.batch import Batch
from unweave.methods.first_stage import noise_of_images
from unweave.methods.mixins import SecondStage
from unweave.methods.posterior import Posterior
from unweave.methods.settings import check_choice, check_whole
from unweave.methods.vae import VAE, Elbo
from unweave.nets.adam import Adam
from unweave.nets.second_stage import WIDTHS, generator, residual_encoder

__all__ = ["MSVAE"]

MOST_DRAWS = 1_000
CONDITIONS = ("image", "logits", "code")
MIXINGS = ("adain", "pixelwise", "concat")


@dataclass(frozen=True, kw_only=True)
class MSVAE(SecondStage, VAE):
    """MS-VAE: a conditional VAE over trained models of another method, which stay as they are.

        L = E_q[-log p(x|y, z)] + β KL(q(z|x - y) ‖ N(0, I)),     y = E p(y|c),  c ~ q(c|x)

    The first stage has learned C and draws blurry images Y; the second, from Y and a code Z of
    what is missing, draws X. Given Y, C and Z are independent, so that C keeps its meaning. Codes
    of a trained model are C and then Z. Each image has one c, drawn once and for all.

    Args:
        beta: β, 1 in the paper.
        condition: What the generator is given: `"image"`, Y; `"logits"`, those of Y, as the
            authors' code does; or `"code"`, C (their ablations M2 and M3).
        mixing: How Z joins: `"adain"`, it says how each channel of each layer is normalised;
            `"pixelwise"`, each pixel, as the authors' code does; or `"concat"`, beside what the
            generator is given (their ablation M2).
        draws: How many c an image has; the paper takes 10 for CelebA.
        together: Whether the first stage is trained along, by its own penalty and the likelihood
            of X alone (their ablation M1); it should then have been trained for 0 steps.

    Notes:
        The authors' code weighs the likelihood of grey images three times.

    References:
        Srivastava et al., Improving the Reconstruction of Disentangled Representation Learners via
        Multi-Stage Modeling, arXiv:2010.13187.
    """

    name = "ms_vae"
    label = "MS-VAE"
    architectures = WIDTHS

    beta: Strength = 1.0
    condition: str = "image"
    mixing: str = "adain"
    draws: int = 1
    together: bool = False

    def check(self) -> None:
        check_choice(self, "condition", CONDITIONS)
        check_choice(self, "mixing", MIXINGS)
        check_whole(self, "draws", 1, MOST_DRAWS)

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        shape, latents, width = spec.shape, spec.latents, WIDTHS[spec.architecture]
        inputs = spec.base_latents if self.condition == "code" else None
        adaptive, pixelwise = self.mixing != "concat", self.mixing == "pixelwise"
        return {
            MODEL: {
                "encoder": residual_encoder(shape, latents, width),
                "decoder": generator(shape, inputs, latents, width, adaptive, pixelwise),
            }
        }

    def extra_optimisers(self) -> Mapping[str, Adam]:
        return {FIRST: Adam()} if self.together else {}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        first = self.first_stage(nets)
        with nullcontext() if self.together else torch.no_grad():
            posterior = first.encode(batch.images)
            c, kl_of_c = posterior.sample_and_kl(self._noise(batch, posterior.mu))
            seen = self.seen(first, c)
        of_z = self.posterior(nets, batch.images, seen)
        z, kl_of_z = of_z.sample_and_kl(batch.noise("posterior", of_z.mu))
        decoded = self.generate(nets, seen, c, z)
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
        of_z = self.posterior(nets, images, self.seen(first, of_c.mu))
        pairs = zip((of_c.mu, of_c.logvar), (of_z.mu, of_z.logvar), strict=True)
        return Posterior(*(torch.cat(pair, -1) for pair in pairs))

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        first = self.first_stage(nets)
        c, z = codes.tensor_split([first.latents], -1)
        return self.generate(nets, self.seen(first, c), c, z)

    def _noise(self, batch: Batch, like: Tensor) -> Tensor:
        """Of c: always the same for an image, unless the first stage could learn to undo it."""
        if self.together:
            return batch.noise("first stage", like)
        return noise_of_images(batch, like, self.draws)

    def seen(self, first: Stage, c: Tensor) -> Tensor:
        """Y, `[M, B, H, W, C]`, of codes of the first stage."""
        decoded = first.decode(c)
        return decoded.float() if self.condition == "logits" else first.mean(decoded)

    def posterior(self, nets: Nets, images: Tensor, seen: Tensor) -> Posterior:
        """q(z|x - y)."""
        return nets.encode(unit(images, seen.dtype) - seen)

    def generate(self, nets: Nets, seen: Tensor, c: Tensor, z: Tensor) -> Tensor:
        """Logits or means of X."""
        given = c if self.condition == "code" else seen
        if self.mixing == "concat":
            beside = z if given.ndim == z.ndim else z[:, :, None, None]
            given = torch.cat([given, beside.expand(*given.shape[:-1], -1)], -1)
        return nets.apply["decoder"](given, z)


def penalty(first: Stage, elbo: Elbo, batch: Batch) -> Tensor:
    """What the method of the first stage adds to the likelihood, `[M]`."""
    if not isinstance(first.method, VAE) or type(first.method).losses is not VAE.losses:
        raise UnweaveError(
            f"{first.method.name} has no penalty that could be trained along; take beta_vae"
        )
    return first.method.regularizer(elbo, batch)
