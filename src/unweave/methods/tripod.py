"""Tripod: scalar quantisation, kernel multi-information and a normalised Hessian penalty."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.methods.base import MODEL, Losses, Method, Nets, Strength
from unweave.methods.batch import Batch, Posterior
from unweave.methods.beta_tc_vae import log_mixtures
from unweave.methods.mixins import Quantised, QuantisedCodes, share_in_use, straight_through
from unweave.methods.settings import check_integer
from unweave.random import Stream

__all__ = ["Tripod", "bandwidth", "differences", "hessian_ratio", "multi_information"]

MAX_VALUES = 1_024
WIDTH = 0.1
"""Step of finite differences, relative to the standard deviation of each latent."""
SMALLEST_SPREAD = 1e-6
"""Added to standard deviations of latents."""
SMALLEST_CURVATURE = 1e-10
"""Added to the denominator of the Hessian penalty."""


@dataclass(frozen=True, kw_only=True)
class Tripod(Quantised, Method):
    """Tripod: latents take few values, share no information, and act on the decoder separately.

        L = -log p(x|z) / P + λ_k KLM(z) + λ_n NHP(z)

        z = (2 round((V - 1) (y + 1) / 2)) / (V - 1) - 1,    y = tanh c

        KLM = E_i[log p̂(z_i) - Σ_j log p̂_j(z_ij)],    p̂(z) = E_k Π_j N(z_j; z_kj, (h s_j)²),
        p̂_j(z) = E_k N(z; z_kj, s_j²)

        NHP = E_i Σ_f E_u[Var_r D_f(z_i, r)] / (E_u[Var_g D_f(z_i, g)] + 10⁻¹⁰),
        D_f(z, r) = (f(z + ε s ⊙ r) - 2 f(z) + f(z - ε s ⊙ r)) / ε²

    with P pixel values per image, c the output of the encoder, s_j the standard deviation of y_j
    over the batch, h = (4 / (d + 2))^(1 / (d + 4)) B^(-1 / (d + 4)), ε = 0.1, and f the first
    hidden layers of the decoder with units u. Gradients pass straight through the rounding.

    Each latent takes V equally spaced values from -1 to 1 (finite scalar quantisation). KLM
    estimates the multi-information of the latents by kernel densities on the batch. NHP divides
    the variance of second differences in random directions r = ±1, which only mixed derivatives
    cause, by that in normal directions g, to which all second derivatives contribute; it is
    small if each latent acts on the decoder independently of the others.

    Args:
        values: Number of values of each latent, V.
        lambda_k: Weight of the multi-information, λ_k; published: 1e-4 on Shapes3D and Isaac3D,
            1e-8 on MPI3D, 1e-10 on Falcor3D.
        lambda_n: Weight of the Hessian penalty, λ_n; published: 1e-2 on Shapes3D and Falcor3D,
            1e-4 on MPI3D, 1e-8 on Isaac3D.
        directions: Number of random directions of each kind and image in the Hessian penalty.
        pooled: Whether numerator and denominator of the Hessian penalty are averaged over the
            batch before dividing, which reduces the bias of ratios of few directions.
        klm: Whether to use the kernel multi-information.
        nhp: Whether to use the Hessian penalty.
        quantise: Whether to quantise; otherwise codes are y.

    Notes:
        Published settings: twice as many latents as factors, batches of 64, 250,000 steps,
        `uw.Adam(lr=2e-4, clip=1)`, and residual networks with GELU and instance norm. The loss is
        divided by P, so that published weights apply. The Hessian penalty uses up to four hidden
        layers. ReLUs have no second derivative; only kinks within ε contribute, which makes the
        penalty noisy with the architecture `conv`. KLM is biased, about 7 for independent latents
        (d = 12, B = 64), so `excess` is reported as well: KLM minus that of latents permuted over
        the batch.

    References:
        Hsu, Hamid, Burns, Finn & Wu, Tripod: Three Complementary Inductive Biases for
        Disentangled Representation Learning, arXiv:2404.10282.
    """

    name = "tripod"
    label = "Tripod"
    deterministic = True
    squash = "tanh"

    values: int = 12
    lambda_k: Strength = 1e-4
    lambda_n: Strength = 1e-2
    directions: int = 2
    pooled: bool = False
    klm: bool = True
    nhp: bool = True
    quantise: bool = True

    def check(self) -> None:
        check_integer(self, "values", 2, MAX_VALUES)
        check_integer(self, "directions", 2)

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        y = nets.encode(batch.images).mu.tanh()
        index, z = self._rounded(y)
        z = straight_through(y, z) if self.quantise else y
        reconstruction = nets.reconstruction(z, batch.images)
        loss = reconstruction / batch.images.shape[2:].numel()
        terms = {"reconstruction": reconstruction, "usage": share_in_use(index, self.values)}
        spread = y.std(1, correction=0, keepdim=True) + SMALLEST_SPREAD
        if self.klm:
            klm, joint = multi_information(z, spread)
            loss = loss + self.lambda_k * klm
            with torch.no_grad():
                _, chance = multi_information(permuted(z, batch.stream("permutation")), spread)
            terms |= {"klm": klm, "excess": joint - chance}
        if self.nhp:
            streams = batch.stream("signs"), batch.stream("directions")
            signs, normal = directions(*streams, z, self.directions)
            found = differences(nets, z, spread, torch.cat([signs, normal], 2))
            nhp = torch.stack([hessian_ratio(each, self.pooled) for each in found]).sum(0)
            loss = loss + self.lambda_n * nhp
            terms["nhp"] = nhp
        return Losses({MODEL: loss}, terms)

    def quantised(self, nets: Nets, images: Tensor) -> QuantisedCodes:
        y = nets.encode(images).mu.tanh()
        index, z = self._rounded(y)
        return QuantisedCodes(z if self.quantise else y, index, y)

    def codebook(self, latents: int, parameters: Mapping[str, Tensor]) -> Tensor | None:  # noqa: ARG002
        if not self.quantise:
            return None
        return (2 * torch.arange(self.values) / (self.values - 1) - 1).expand(latents, -1)

    def _rounded(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the index of the nearest value of codes y in [-1, 1], and the value."""
        steps = self.values - 1
        index = ((y.detach() + 1) * (steps / 2)).round()
        return index.long(), 2 * index / steps - 1


def bandwidth(size: int, latents: int) -> float:
    """Silverman's factor for d-dimensional densities, h = (4 / (d + 2) / B)^(1 / (d + 4)).

    Example:
        >>> round(bandwidth(64, 12), 3), round(bandwidth(64, 10), 3)
        (0.713, 0.687)
    """
    return float((4 / (latents + 2) / size) ** (1 / (latents + 4)))


def multi_information(z: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    """Estimate the multi-information of codes `[M, B, d]` by kernel densities.

    Args:
        z: Codes.
        spread: Standard deviations of the kernels of marginals, `[M, 1, d]`.

    Returns:
        The estimate, and its part E_i[log p̂(z_i)], which alone depends on how latents are
        combined, `[M]` each.
    """
    size, latents = z.shape[1:]
    spread = spread.expand_as(z)
    narrow = Posterior(z, 2 * (bandwidth(size, latents) * spread).log())
    joint, _ = log_mixtures(narrow, z, "minibatch", size)
    _, product = log_mixtures(Posterior(z, 2 * spread.log()), z, "minibatch", size)
    log_joint = joint.mean(-1) - math.log(size)
    return log_joint - (product.mean(-1) - latents * math.log(size)), log_joint


def permuted(z: Tensor, stream: Stream) -> Tensor:
    """Permute each latent of codes `[M, B, d]` over the batch."""
    return z.gather(1, stream.words(z.shape[1], z.shape[2]).argsort(1))


def directions(signs: Stream, normal: Stream, z: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Sample directions of ±1 and normal directions for codes, `[M, B, count, d]` each."""
    size, latents = z.shape[1:]
    found = signs.integers(2, size * count, latents) * 2 - 1, normal.normal(size * count, latents)
    first, second = (each.to(z.dtype).unflatten(1, (size, count)) for each in found)
    return first, second


def differences(nets: Nets, z: Tensor, spread: Tensor, along: Tensor) -> list[Tensor]:
    """Return second differences of the decoder's hidden layers, `[M, B, n, units]` each.

    All codes are decoded in one call.

    Args:
        nets: Networks of the models.
        z: Codes `[M, B, d]`.
        spread: Standard deviation of each latent, `[M, 1, d]`.
        along: Directions `[M, B, n, d]`.
    """
    size, count = along.shape[1:3]
    moves = WIDTH * spread[:, :, None] * along
    points = torch.cat([z[:, :, None], z[:, :, None] + moves, z[:, :, None] - moves], 2)
    found = []
    for layer in nets.hidden(points.flatten(1, 2)):
        units = layer.flatten(2).unflatten(1, (size, 2 * count + 1))
        middle, plus, minus = units.split([1, count, count], 2)
        found.append((plus - 2 * middle + minus) / WIDTH**2)
    return found


def hessian_ratio(found: Tensor, pooled: bool) -> Tensor:
    """Return the penalty of one layer, `[M]`.

    Args:
        found: Second differences `[M, B, 2n, units]`, in n directions of ±1, then n normal ones.
        pooled: Whether to average over the batch before dividing.
    """
    along_signs, along_normal = found.chunk(2, 2)
    mixed, total = (each.var(2, correction=0).mean(-1) for each in (along_signs, along_normal))
    if pooled:
        mixed, total = mixed.mean(-1, keepdim=True), total.mean(-1, keepdim=True)
    return (mixed / (total + SMALLEST_CURVATURE)).mean(-1)
