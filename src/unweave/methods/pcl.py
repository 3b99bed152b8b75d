"""PCL: permutation-contrastive learning, which separates neighbours in time from random pairs."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from unweave.data.pairs import PairRule, transition_rule
from unweave.errors import UnweaveError
from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups, NetworkSpec
from unweave.methods.batch import Batch
from unweave.methods.mixins import Pairs
from unweave.nets.architectures import build
from unweave.nets.layers import Contrast
from unweave.nets.network import Network
from unweave.random import Stream

__all__ = ["CONTRAST", "PCL", "others"]

CONTRAST = "contrast"


@dataclass(frozen=True, kw_only=True)
class PCL(Pairs, Method):
    """Permutation-contrastive learning: distinguish consecutive images from random pairs.

        r(h, h') = -Σ_i |w₁ᵢ h_i + w₂ᵢ h'_i + b_i| + a Σ_i h_i² + c,    a ≥ 0
        L = ½ E[-log σ(r(h(x_t), h(x_t₋₁)))] + ½ E[-log(1 - σ(r(h(x_t), h(x'))))]

    with x' another image of the batch in place of x_t₋₁. There is no decoder, no noise and no
    prior. The code is h, the mean of the usual encoder; initially w = (1, -1), b = 0, a = 1 and
    c = 0. If factors are independent and each evolves on its own, h must recover them to recognise
    true pairs. The first image of a pair is x_t₋₁, the second x_t.

    Args:
        transitions: Rule for the second image: `laplace`, `uniform`, or `neighbours` in time.

    Notes:
        The published code applies batch normalisation to h. Here h is not normalised: a code must
        not depend on the rest of the batch, and the linear output can learn any mean and scale,
        with matching w, b and a. The learned parameter is the square root of a. The published
        optimiser is SGD with learning rate 0.1, momentum 0.9 and batches of 512; here it is the
        optimiser of the run. Log-variances of codes are meaningless, as for an autoencoder.

    References:
        Hyvärinen & Morioka, Nonlinear ICA of Temporally Dependent Stationary Sources, AISTATS
        2017.
    """

    name = "pcl"
    label = "PCL"
    deterministic = True
    decodes = False

    transitions: str = "laplace"

    def check(self) -> None:
        transition_rule(self.transitions)

    def pair_rule(self) -> PairRule:
        return transition_rule(self.transitions)

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        encoder, _ = build(spec.architecture, spec.shape, spec.latents)
        return {MODEL: {"encoder": encoder, CONTRAST: Network((Contrast(spec.latents),))}}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        if batch.images.shape[1] < 2:
            raise UnweaveError(
                f"the batch size of {self.name} must be at least 2, got {batch.images.shape[1]}",
                subject="batch",
            )
        codes = nets.encode(torch.cat([batch.images, batch.paired(self.name)], 1)).mu
        before, now = codes.chunk(2, 1)
        false = before.gather(1, others(before, batch.stream("negatives")))
        pairs = torch.cat([torch.cat([now, before], -1), torch.cat([now, false], -1)], 1)
        positive, negative = nets.apply[CONTRAST](pairs)[..., 0].chunk(2, 1)
        loss = 0.5 * (F.softplus(-positive) + F.softplus(negative)).mean(-1)
        accuracy = 0.5 * ((positive > 0).to(loss.dtype) + (negative < 0).to(loss.dtype)).mean(-1)
        return Losses({MODEL: loss}, {"accuracy": accuracy})


def others(codes: Tensor, stream: Stream) -> Tensor:
    """Return random indices of other images in a batch `[M, B, d]`, for use with `gather`.

    Each index is the successor in a random cyclic order, so that no image is paired with itself
    and each is used once.
    """
    order = stream.words(codes.shape[1], 1).argsort(1)
    chosen = torch.empty_like(order).scatter(1, order, order.roll(-1, 1))
    return chosen.expand_as(codes)
