r"""The game that m is trained by: it helps some decoders and hinders others.

    L_k = E_x E_{z ~ q_k(z|x)} ‖Dec_k(z) - x̃‖²,    x̃ what m makes of x,    q_k frozen
    every decoder minimises its own L_k;    m minimises L_ent - L_dis, means over pairs

Codes are those of the original images, several draws of each, and m is moved once for every three
batches of the decoders, so that these stay near the best for what m is just now. Errors are
squared whatever the models were trained with: then what is the same for all images costs a decoder
nothing, and m must follow factors. A Bernoulli likelihood counts an error the less, the greyer a
pixel is, and m learns to make images grey.

With linear decoders, whitened factors w and codes R w + σ ε, what is left of a·w in L is aᵀ K a,
K = Rᵀ diag(σ² / (1 + σ²)) R: m finds the eigenvector of K_ent - K_dis with the lowest eigenvalue.

Shapes: P pairs of encoder and decoder, B images, S draws of each code, d latents.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unweave.fleet.parameters import NetworkGroup
from unweave.methods.posterior import Posterior
from unweave.random import Stream

__all__ = ["DECODER", "DECODER_BATCHES", "LOSSES", "MANIPULATION", "Contest"]

DECODER, MANIPULATION = "decoder", "m"
DECODER_BATCHES = 3
"""Of the decoders, for each of m."""


def squared(decoded: Tensor, images: Tensor) -> Tensor:
    """Σ (x - p)², `[..., H, W, C]` to `[...]`."""
    return (decoded - images).square().flatten(-3).sum(-1)


def squared_of_logits(decoded: Tensor, images: Tensor) -> Tensor:
    """The same with p = sigmoid(decoded)."""
    return squared(decoded.sigmoid(), images)


LOSSES = {"bernoulli": squared_of_logits, "gaussian": squared}
"""By what decoders were trained with, which says what they give."""


@dataclass(frozen=True, eq=False)
class Contest:
    """Pairs of frozen encoders and learning decoders, and m between them.

    Args:
        encode: Takes images `[B, H, W, C]` to the codes of all encoders, `[P, B, d]`.
        decoders: One network, P rows of parameters.
        manipulation: The network of m, one row.
        alter: Takes what m says, `[B, H, W, C]`, and the images to x̃.
        loss: Of what is decoded and x̃, broadcast, `[..., H, W, C]` to `[...]`.
        entangling: bool `[P]`, which pairs m should help.
        draws: S.
        seed: An int64 scalar.
    """

    encode: Callable[[Tensor], Posterior]
    decoders: NetworkGroup
    manipulation: NetworkGroup
    alter: Callable[[Tensor, Tensor], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]
    entangling: Tensor
    draws: int
    seed: Tensor

    def losses(
        self, images: Tensor, factors: Tensor, noise: Stream, learner: str = ""
    ) -> "Losses":
        """L of every pair on a batch, with the parameters by which to differentiate.

        Args:
            images: `[B, H, W, C]`.
            factors: Standardised, `[B, K]`.
            noise: Of the codes, over P seeds.
            learner: `DECODER` or `MANIPULATION`; without it nothing is differentiated.
        """
        leaves = {
            name: group.leaves()[name] if name == learner else group.named(group.working)[name]
            for name, group in self.groups.items()
        }
        with torch.no_grad():
            codes = self.encode(images)
            z = self._drawn(codes, noise)
        with torch.set_grad_enabled(learner == DECODER):
            decoded = self.decoders.networks[DECODER](leaves[DECODER], z)
        with torch.set_grad_enabled(learner == MANIPULATION):
            said = self.manipulation.networks[MANIPULATION](leaves[MANIPULATION], factors[None])
            altered = self.alter(said[0], images)
        with torch.set_grad_enabled(bool(learner)):
            each = self.loss(decoded.unflatten(1, (self.draws, len(images))), altered)
            return Losses(each.mean((1, 2)), leaves.get(learner, {}))

    @property
    def groups(self) -> dict[str, NetworkGroup]:
        """The decoders and m, by name."""
        return {DECODER: self.decoders, MANIPULATION: self.manipulation}

    def difference(self, losses: Tensor) -> Tensor:
        """L_ent - L_dis, each the mean over its pairs."""
        helped, hindered = (losses.index_select(0, side) for side in self._sides)
        return helped.mean() - hindered.mean()

    @cached_property
    def _sides(self) -> tuple[Tensor, Tensor]:
        """Which pairs are entangling, which not: a mask would ask the host in every step."""
        return self.entangling.nonzero()[:, 0], (~self.entangling).nonzero()[:, 0]

    def learn(self, learner: str, images: Tensor, factors: Tensor, step: Tensor) -> Tensor:
        """Move the decoders, or m, by one batch; L of every pair before that.

        Args:
            learner: `DECODER` or `MANIPULATION`.
            images: `[B, H, W, C]`.
            factors: Standardised, `[B, K]`.
            step: How often the learner moved before.
        """
        found = self.losses(images, factors, self.noise(learner, step), learner)
        # A decoder's loss has no say in the others' parameters, so their sum serves all.
        goal = found.values.sum() if learner == DECODER else self.difference(found.values)
        gradients = torch.autograd.grad(goal, list(found.leaves.values()))
        group = self.groups[learner]
        rows = torch.ones(len(group.parameters), dtype=torch.bool, device=step.device)
        with torch.no_grad():
            group.update(gradients, step, rows, rows.clone())
        return found.values.detach()

    def step(self, batch: Callable[[str, Tensor], tuple[Tensor, Tensor]], step: Tensor) -> None:
        """Three batches of the decoders, then one of m.

        Args:
            batch: Gives images and factors for a purpose and a number.
            step: How often m moved before.
        """
        for k in range(DECODER_BATCHES):
            number = step * DECODER_BATCHES + k
            self.learn(DECODER, *batch(DECODER, number), number)
        self.learn(MANIPULATION, *batch(MANIPULATION, step), step)

    def noise(self, purpose: str, step: Tensor | int) -> Stream:
        """That of codes: each pair has its own."""
        pairs = torch.arange(len(self.entangling), device=self.seed.device)
        return Stream(self.seed + (pairs << 32), f"codes for {purpose}", step)

    def _drawn(self, codes: Posterior, noise: Stream) -> Tensor:
        """Codes `[P, S · B, d]`, the draws of all images one after the other."""
        _, images, latents = codes.mu.shape
        mu, logvar = (part.repeat(1, self.draws, 1) for part in (codes.mu, codes.logvar))
        drawn = noise.normal(self.draws * images, latents).to(mu.dtype)
        return Posterior(mu, logvar).sample(drawn)


@dataclass(frozen=True, eq=False)
class Losses:
    """L of every pair, `[P]`, and the parameters of who learns from it."""

    values: Tensor
    leaves: dict[str, Tensor]
