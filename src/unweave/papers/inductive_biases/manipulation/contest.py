r"""Adversarial objective of m, which helps some decoders and hinders others.

    L_k = E_x E_{z ~ q_k(z|x)} ‖Dec_k(z) - x̃‖²,    x̃ = x changed by m,    q_k frozen
    every decoder minimises its own L_k;    m minimises L_ent - L_dis, means over pairs

Codes are sampled several times from the posteriors of the original images. m takes one step for
every three steps of the decoders, so that these stay close to optimal for the current m. The error
is squared for every likelihood: a change that is the same for all images then costs a decoder
nothing, and m must follow the factors. A Bernoulli likelihood penalises errors less in grey
pixels, and m would learn to make images grey.

With linear decoders, whitened factors w and codes R w + σ ε, the term of a·w in L is aᵀ K a with
K = Rᵀ diag(σ² / (1 + σ²)) R: m finds the eigenvector of K_ent - K_dis with the lowest eigenvalue.

Shapes: P pairs of encoder and decoder, B images, S samples of each code, d latents.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from unweave.fleet.parameters import NetworkGroup
from unweave.methods.batch import Posterior
from unweave.papers.inductive_biases.manipulation.training import MANIPULATION
from unweave.random import Stream

__all__ = ["DECODER", "DECODER_BATCHES", "LOSSES", "Contest"]

DECODER = "decoder"
DECODER_BATCHES = 3
"""Decoder steps for each step of m."""


def squared(decoded: Tensor, images: Tensor) -> Tensor:
    """Σ (x - p)², `[..., H, W, C]` to `[...]`."""
    return (decoded - images).square().flatten(-3).sum(-1)


def squared_of_logits(decoded: Tensor, images: Tensor) -> Tensor:
    """Σ (x - p)² with p = sigmoid(decoded)."""
    return squared(decoded.sigmoid(), images)


LOSSES = {"bernoulli": squared_of_logits, "gaussian": squared}
"""Loss by the likelihood of the models, which determines the output of their decoders."""


class Losses(NamedTuple):
    """L of every pair, `[P]`, and the parameters to differentiate by."""

    values: Tensor
    leaves: dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Contest:
    """Pairs of frozen encoders and trainable decoders, with m as their adversary.

    Args:
        encode: Maps images `[B, H, W, C]` to the codes of all encoders, `[P, B, d]`.
        decoders: One network with P rows of parameters.
        manipulation: The network of m, with one row.
        alter: Maps the output of m, `[B, H, W, C]`, and the images to x̃.
        loss: Loss of decoded images and x̃, broadcast, `[..., H, W, C]` to `[...]`.
        entangling: Mask of the pairs that m should help, bool `[P]`.
        draws: Samples per code, S.
        seed: Random seed, an int64 scalar.
    """

    encode: Callable[[Tensor], Posterior]
    decoders: NetworkGroup
    manipulation: NetworkGroup
    alter: Callable[[Tensor, Tensor], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]
    entangling: Tensor
    draws: int
    seed: Tensor

    @property
    def groups(self) -> dict[str, NetworkGroup]:
        return {DECODER: self.decoders, MANIPULATION: self.manipulation}

    def losses(self, images: Tensor, factors: Tensor, noise: Stream, learner: str = "") -> Losses:
        """L of every pair on a batch, with the parameters to differentiate by."""
        leaves = {
            name: group.leaves()[name] if name == learner else group.named(group.working)[name]
            for name, group in self.groups.items()
        }
        with torch.no_grad():
            z = self._sampled(self.encode(images), noise)
        with torch.set_grad_enabled(learner == DECODER):
            decoded = self.decoders.networks[DECODER](leaves[DECODER], z)
        with torch.set_grad_enabled(learner == MANIPULATION):
            output = self.manipulation.networks[MANIPULATION](leaves[MANIPULATION], factors[None])
            altered = self.alter(output[0], images)
        with torch.set_grad_enabled(bool(learner)):
            each = self.loss(decoded.unflatten(1, (self.draws, len(images))), altered)
            return Losses(each.mean((1, 2)), leaves.get(learner, {}))

    def sides(self, losses: Tensor) -> tuple[Tensor, Tensor]:
        """L_dis and L_ent, each the mean over its pairs."""
        hindered, helped = (losses.index_select(0, side).mean() for side in self._sides)
        return hindered, helped

    def difference(self, losses: Tensor) -> Tensor:
        """L_ent - L_dis."""
        hindered, helped = self.sides(losses)
        return helped - hindered

    @cached_property
    def _sides(self) -> tuple[Tensor, Tensor]:
        """Indices of the pairs to hinder and to help; a mask would synchronise in every step."""
        return (~self.entangling).nonzero()[:, 0], self.entangling.nonzero()[:, 0]

    def learn(self, learner: str, images: Tensor, factors: Tensor, step: Tensor) -> Tensor:
        """Update the decoders or m on one batch; return L of every pair before the update."""
        found = self.losses(images, factors, self.noise(learner, step), learner)
        # No decoder's loss depends on the parameters of another, so one sum serves all.
        goal = found.values.sum() if learner == DECODER else self.difference(found.values)
        gradients = torch.autograd.grad(goal, list(found.leaves.values()))
        group = self.groups[learner]
        rows = torch.ones(len(group.parameters), dtype=torch.bool, device=step.device)
        with torch.no_grad():
            group.update(gradients, step, rows, rows.clone())
        return found.values.detach()

    def step(self, batch: Callable[[str, Tensor], tuple[Tensor, Tensor]], step: Tensor) -> None:
        """Train the decoders on three batches, then m on one."""
        for k in range(DECODER_BATCHES):
            number = step * DECODER_BATCHES + k
            self.learn(DECODER, *batch(DECODER, number), number)
        self.learn(MANIPULATION, *batch(MANIPULATION, step), step)

    def noise(self, purpose: str, step: Tensor | int) -> Stream:
        """Noise of the codes, independent for each pair."""
        pairs = torch.arange(len(self.entangling), device=self.seed.device)
        return Stream(self.seed + (pairs << 32), f"codes for {purpose}", step)

    def _sampled(self, codes: Posterior, noise: Stream) -> Tensor:
        """Codes `[P, S · B, d]`: one sample of all images after the other."""
        _, images, latents = codes.mu.shape
        mu, logvar = (part.repeat(1, self.draws, 1) for part in (codes.mu, codes.logvar))
        normals = noise.normal(self.draws * images, latents).to(mu.dtype)
        return Posterior(mu, logvar).sample(normals)
