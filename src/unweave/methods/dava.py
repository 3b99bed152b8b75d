"""DAVA: a VAE whose capacity follows the accuracy of a discriminator of decoded images."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unweave.errors import UnweaveError
from unweave.methods.adversarial import DISCRIMINATOR
from unweave.methods.base import MODEL, Losses, Nets, NetworkGroups, NetworkSpec, Strength
from unweave.methods.batch import Batch
from unweave.methods.vae import VAE
from unweave.nets.adam import Adam
from unweave.nets.architectures import build
from unweave.nets.layers import Conv, Offsets
from unweave.nets.network import Network, StackedNetwork
from unweave.nets.norms import InstanceNorm
from unweave.random import Stream

__all__ = ["DAVA", "direction", "resample", "through"]

PROGRESS = "progress"
UNSURE = 0.6
"""Least probability at which an image counts as a reconstruction, and largest label noise."""
RISE, HOLD = 0.501, 0.51
"""Highest accuracies at which the capacity rises, and at which it does not fall."""


@dataclass(frozen=True, kw_only=True)
class DAVA(VAE):
    """DAVA: a VAE whose capacity follows the accuracy of a discriminator of decoded images.

        L   = E_q[-log p(x|z)] + γ (KL / d - C)⁴ + λ_e w E_n + λ_d min(w, 1) E_d
        E_n = Σ -log(1 - σ(D(x̂)))    trains the encoder,    x̂ = decoded z
        E_d = Σ -log σ(D(x̃))         trains the decoder,    x̃ = decoded z̃
        L_D = Σ H(1 - 0.6 u, σ(D(x̂))) + Σ H(0.6 u', σ(D(x̃))),                  u, u' ~ U(0, 1)
        w   = max(100 (a - ½), 0),    C = C_max min(1, t / T)

    with sums over the B images of a batch, the cross-entropy H, and d latents. z̃ is z with each
    latent drawn from the batch independently, with replacement. a is the accuracy of the
    discriminator, which calls an image a reconstruction if σ(D) ≥ 0.6. After each step, t grows by
    B / 2 if a ≤ 0.501 and shrinks by B / 2, to no less than 0, if a > 0.51.

    Args:
        c_max: Largest capacity in nats per latent.
        gamma: Weight of the deviation from the capacity.
        threshold: Number of images T after which the capacity is at its maximum, counted in
            half-batches.
        lambda_encoder: Weight of the discriminator in the loss of the encoder.
        lambda_decoder: Largest weight of the discriminator in the loss of the decoder.

    Notes:
        Published settings: batches of 128, 150,000 steps, `Adam(lr=1e-4, clip_norm=1)`. The
        discriminator is the encoder of the architecture with instance norm after each convolution
        and one output. The published one also has batch norm after its dense layer, for which it
        gets two mixed half-batches; here it judges each image separately. All networks are updated
        together, each once per step, and the discriminator judges the reconstructions of the ELBO.
        The authors' code updates the encoder and the decoder twice per step, without clearing the
        gradient of the ELBO, and clips the parts of their gradients separately; its t can become
        negative.

    References:
        Estermann & Wattenhofer, DAVA: Disentangling Adversarial Variational Autoencoder,
        arXiv:2303.01384.
    """

    name = "dava"
    label = "DAVA"
    symbols: ClassVar = {"c_max": "C", "threshold": "T"}
    likelihoods = ("bernoulli",)
    training_only = (DISCRIMINATOR, PROGRESS)

    c_max: Strength = 8.0
    gamma: Strength = 500.0
    threshold: Strength = 12_800_000.0
    lambda_encoder: Strength = 0.3
    lambda_decoder: Strength = 0.001

    def check(self) -> None:
        if self.threshold == 0:
            raise UnweaveError("threshold of dava must be above 0, got 0", subject="threshold")

    def extra_networks_of(self, spec: NetworkSpec) -> NetworkGroups:
        return {
            DISCRIMINATOR: {DISCRIMINATOR: _discriminator(spec)},
            PROGRESS: {PROGRESS: Network((Offsets(1),))},
        }

    def extra_optimisers(self) -> Mapping[str, Adam]:
        # Without running means, Adam subtracts the sign of the gradient, exactly.
        counter = Adam(lr=1.0, beta1=0.0, beta2=0.0)
        return {DISCRIMINATOR: Adam(lr=1e-4, clip_norm=1.0), PROGRESS: counter}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        posterior = nets.encode(batch.images)
        z, kl = posterior.sample_and_kl(batch.noise("posterior", posterior.mu))
        logits, kl = nets.decode(z), kl.mean(-1)
        reconstruction = nets.likelihood(logits, batch.images).mean(-1)
        factorised = nets.decode(resample(z.detach(), batch.stream("resample")))
        judged = self._judge(nets, logits, factorised, batch.stream("labels"))
        weight = (100 * (judged.accuracy - 0.5)).clamp(min=0)
        count = nets.apply[PROGRESS](z.new_zeros(len(z), 1, 1))[:, 0, 0]
        capacity = self.capacity(count.detach() * z.shape[1] / 2)
        loss = reconstruction + self.gamma * (kl / z.shape[2] - capacity) ** 4
        loss = loss + self.lambda_encoder * weight * through(z, judged.of_encoder)
        loss = loss + self.lambda_decoder * weight.clamp(max=1) * judged.of_decoder
        groups = {
            MODEL: loss,
            DISCRIMINATOR: judged.of_discriminator,
            PROGRESS: -direction(judged.accuracy, count.detach()) * count,
        }
        terms = {"reconstruction": reconstruction, "kl": kl}
        return Losses(groups, {**terms, "capacity": capacity, "accuracy": judged.accuracy})

    def capacity(self, images: Tensor) -> Tensor:
        """Return the capacity C in nats per latent, `[M]`, for t images."""
        return self.c_max * (images / self.threshold).clamp(0, 1)

    @staticmethod
    def _judge(nets: Nets, logits: Tensor, factorised: Tensor, stream: Stream) -> "Judged":
        """Let the discriminator judge reconstructions and images of factorised codes."""
        both = torch.cat([logits, factorised], 1).float().sigmoid()
        judged = nets.apply[DISCRIMINATOR](both).float()[..., 0]
        real, mixed = judged.chunk(2, 1)
        noise, other = (UNSURE * stream.uniform(real.shape[1], 2).to(real.dtype)).unbind(-1)
        of_real = F.softplus(real) - (1 - noise) * real
        of_mixed = F.softplus(mixed) - other * mixed
        correct = torch.cat([real.sigmoid() >= UNSURE, mixed.sigmoid() < UNSURE], 1)
        return Judged(
            (of_real + of_mixed).sum(-1),
            F.softplus(real).sum(-1),
            F.softplus(-mixed).sum(-1),
            correct.sum(-1) / correct.shape[1],
        )


class Judged(NamedTuple):
    """Losses that follow from the discriminator, and its accuracy, `[M]` each."""

    of_discriminator: Tensor
    of_encoder: Tensor
    of_decoder: Tensor
    accuracy: Tensor


def resample(z: Tensor, stream: Stream) -> Tensor:
    """Draw each latent `z[m, :, l]` from the batch with replacement, independently of the others.

    Example:
        >>> z = torch.tensor([[[0.0, 10.0], [1.0, 11.0], [2.0, 12.0]]])
        >>> resample(z, Stream(torch.tensor([7]), "resample"))
        tensor([[[ 1., 11.],
                 [ 1., 11.],
                 [ 0., 11.]]])
    """
    return z.gather(1, stream.integers(z.shape[1], z.shape[1], z.shape[2]))


def direction(accuracy: Tensor, count: Tensor) -> Tensor:
    """Return the change of the count of half-batches, 1, 0 or -1, `[M]`; it stays at least 0.

    Example:
        >>> direction(torch.tensor([0.5, 0.5055, 0.6, 0.6]), torch.tensor([0.0, 3.0, 3.0, 0.0]))
        tensor([ 1.,  0., -1.,  0.])
    """
    rises, falls = accuracy <= RISE, (accuracy > HOLD) & (count > 0)
    return rises.to(count.dtype) - falls.to(count.dtype)


def through(z: Tensor, loss: Tensor) -> Tensor:
    """Return a loss `[M]` with its gradient restricted to what codes `[M, B, d]` depend on.

    Parameters that map the codes to the loss, such as those of the decoder, receive no gradient.
    """
    if not (torch.is_grad_enabled() and z.requires_grad):
        return loss.detach()
    (gradient,) = torch.autograd.grad(loss.sum(), z, retain_graph=True)
    path = (gradient * z).flatten(1).sum(-1)
    return loss.detach() + (path - path.detach())


def _discriminator(spec: NetworkSpec) -> StackedNetwork:
    """Build an encoder with one latent, whose mean is the logit of a reconstruction.

    Encoders that are modules keep their own normalisation.
    """
    encoder, _ = build(spec.architecture, spec.shape, 1)
    if not isinstance(encoder, Network):
        return encoder
    norm = InstanceNorm("none")
    return Network(
        tuple(
            one
            for layer in encoder.layers
            for one in ((layer, norm) if isinstance(layer, Conv) else (layer,))
        )
    )
