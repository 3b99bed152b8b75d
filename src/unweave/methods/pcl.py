"""PCL: permutation-contrastive learning, which tells true neighbours in time from false ones."""

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
from unweave.nets.contrast import Contrast
from unweave.nets.network import Network
from unweave.random import Stream

__all__ = ["CONTRAST", "PCL", "others"]

CONTRAST = "contrast"


@dataclass(frozen=True, kw_only=True)
class PCL(Pairs, Method):
    """Permutation-contrastive learning: no decoder, no noise, no prior.

        r(h, h') = -Σ_i |w₁ᵢ h_i + w₂ᵢ h'_i + b_i| + a Σ_i h_i² + c,    a ≥ 0
        L = ½ E[-log σ(r(h(x_t), h(x_t₋₁)))] + ½ E[-log(1 - σ(r(h(x_t), h(x'))))]

    with x' another image of the batch in place of x_t₋₁. The code is h, the mean of the usual
    encoder; w = (1, -1), b = 0, a = 1 and c = 0 in the beginning. Where factors are independent
    and each goes on by itself, h can only tell true pairs by finding them. The first image of a
    pair is x_t₋₁, the second x_t.

    Args:
        transitions: How the second image follows: `laplace`, `uniform`, or `neighbours` in time.

    Notes:
        The published code normalises h by batches. A code must not depend on the batch that an
        image is in, and h has a linear output, so that mean and scale are free anyhow, with w, b
        and a to match: here h is not normalised. What is learned of a is its root. The published
        optimiser is SGD, with a rate of 0.1, momentum 0.9 and batches of 512; here it is that of
        the run. As of an autoencoder, the log-variances of codes say nothing.

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
            raise UnweaveError(f"{self.name} compares images of a batch; make it at least 2")
        codes = nets.encode(torch.cat([batch.images, batch.paired(self.name)], 1)).mu
        before, now = codes.chunk(2, 1)
        false = before.gather(1, others(before, batch.stream("negatives")))
        pairs = torch.cat([torch.cat([now, before], -1), torch.cat([now, false], -1)], 1)
        true, untrue = nets.apply[CONTRAST](pairs)[..., 0].chunk(2, 1)
        loss = 0.5 * (F.softplus(-true) + F.softplus(untrue)).mean(-1)
        right = 0.5 * ((true > 0).to(loss.dtype) + (untrue < 0).to(loss.dtype)).mean(-1)
        return Losses({MODEL: loss}, {"accuracy": right})


def others(codes: Tensor, stream: Stream) -> Tensor:
    """For every place of a batch `[M, B, d]` another one at random, as `gather` takes them.

    Places in a random order, each followed by the next: nobody gets the own one, everybody is
    taken once.
    """
    order = stream.words(codes.shape[1], 1).argsort(1)
    chosen = torch.empty_like(order).scatter(1, order, order.roll(-1, 1))
    return chosen.expand_as(codes)
