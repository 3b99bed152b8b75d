"""A fleet of tiny networks for objectives, and the pieces of the textbook's losses.

M = 3 models, B = 5 images of 4 × 4 pixels, d = 3 latents, all different so that no wrong axis
passes unseen. The parameters of a model with members lie side by side in its row. The textbook's
pieces are loops over plain numbers, one model and image at a time.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from unweave.methods import Batch, Nets
from unweave.methods.members import member_seeds
from unweave.nets.contrast import Contrast
from unweave.nets.layers import Linear, Maps, Offsets, Reshape
from unweave.nets.likelihoods import LIKELIHOODS
from unweave.nets.network import Network
from unweave.random import Stream

MODELS, IMAGES, LATENTS = 3, 5, 3
DATA_SIZE = 11

NETWORKS = {
    "encoder": Network(
        (Reshape((16,)), Linear(16, 7, "tanh"), Linear(7, 2 * LATENTS, activation="none"))
    ),
    "decoder": Network(
        (Linear(LATENTS, 7, "tanh"), Linear(7, 16, activation="none"), Reshape((4, 4, 1)))
    ),
    "discriminator": Network((Linear(LATENTS, 7, "tanh"), Linear(7, 2, activation="none"))),
    "maps": Network((Maps(2, LATENTS),)),
    "exponents": Network((Offsets(LATENTS),)),
    "contrast": Network((Contrast(LATENTS),)),
}


def random(*shape, seed):
    """Standard normal float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class SmallFleet:
    """Networks with parameters, and what one step of training gives them."""

    parameters: dict[str, Tensor]
    images: Tensor
    partners: Tensor
    seeds: Tensor
    step: Tensor
    likelihood: str = "bernoulli"
    members: int = 1

    @classmethod
    def make(cls, members=1):
        return cls(
            {
                name: random(MODELS, members * network.width, seed=place) / 2
                for place, (name, network) in enumerate(NETWORKS.items())
            },
            random(MODELS, IMAGES, 4, 4, 1, seed=10).sigmoid(),
            random(MODELS, IMAGES, 4, 4, 1, seed=11).sigmoid(),
            torch.tensor([5, 0, 2**40 + 1]),
            torch.tensor(30_000),
            members=members,
        )

    def alone(self, m):
        """Model m by itself."""
        return replace(
            self,
            parameters={name: buffer[m : m + 1] for name, buffer in self.parameters.items()},
            images=self.images[m : m + 1],
            partners=self.partners[m : m + 1],
            seeds=self.seeds[m : m + 1],
        )

    def nets(self):
        apply = {name: partial(NETWORKS[name], self.rows(name)) for name in self.parameters}
        return Nets(apply, LIKELIHOODS[self.likelihood])

    def rows(self, name):
        """The parameters of a network, a row for each member of each model."""
        return self.parameters[name].unflatten(1, (self.members, -1)).flatten(0, 1)

    def batch(self):
        own = self.member_seeds() if self.members > 1 else None
        return Batch(self.images, self.seeds, self.step, DATA_SIZE, self.partners, own)

    def member_seeds(self):
        return member_seeds(self.seeds, self.members)

    def losses(self, *methods):
        """The losses of these methods, one per model."""
        return type(methods[0]).stack(methods).losses(self.nets(), self.batch())

    def network(self, name, m, x, member=0):
        """What a network of model m makes of a single input, in plain numbers."""
        x = torch.as_tensor(x, dtype=torch.float64)[None, None]
        row = m * self.members + member
        return NETWORKS[name](self.rows(name)[row : row + 1], x).flatten().tolist()

    def posteriors(self, m, images=None, member=0):
        """(mean, log-variance) of every image of model m."""
        images = self.images if images is None else images
        both = [self.network("encoder", m, image, member) for image in images[m]]
        return [(out[:LATENTS], out[LATENTS:]) for out in both]

    def noise(self, m, purpose="posterior", member=0):
        """Model m's own standard normal numbers."""
        seed = int(self.member_seeds()[m * self.members + member])
        return Stream(seed, purpose, int(self.step)).normal(IMAGES, LATENTS).tolist()

    def cross_entropy(self, m, z, image, member=0):
        """-log p(x|z), summed over the pixels of one image."""
        total, logits = 0.0, self.network("decoder", m, z, member)
        for logit, x in zip(logits, image.flatten().tolist(), strict=True):
            p = 1 / (1 + math.exp(-logit))
            total -= x * math.log(p) + (1 - x) * math.log(1 - p)
        return total

    def textbook_elbo(self, m):
        """Of model m: reconstruction, KL divergence, codes, and the posteriors."""
        posteriors, noise = self.posteriors(m), self.noise(m)
        codes = [sample(*q, e) for q, e in zip(posteriors, noise, strict=True)]
        reconstruction = mean(
            self.cross_entropy(m, z, x) for z, x in zip(codes, self.images[m], strict=True)
        )
        return reconstruction, mean(kl_to_prior(*q) for q in posteriors), codes, posteriors


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


def sample(mu, logvar, noise):
    """z = μ + σ ε of one image."""
    return [m + math.exp(v / 2) * e for m, v, e in zip(mu, logvar, noise, strict=True)]


def kl_to_prior(mu, logvar):
    """KL(N(μ, σ²) ‖ N(0, I)) of one image, in nats."""
    return sum(0.5 * (m * m + math.exp(v) - v - 1) for m, v in zip(mu, logvar, strict=True))


def same(found, expected, rtol=1e-9):
    """Check losses against one dictionary per model of everything that is to be reported."""
    values = {**found.groups, **found.terms}
    assert set(values) == set(expected[0])
    for name, value in values.items():
        assert value.shape == (len(expected),)
        np.testing.assert_allclose(
            value.numpy(), [one[name] for one in expected], rtol=rtol, err_msg=name
        )


def equal(one, two):
    """Check that two evaluations gave the same losses and terms, to the last digits."""
    assert list(one.groups) == list(two.groups)
    assert list(one.terms) == list(two.terms)
    for name, value in {**one.groups, **one.terms}.items():
        np.testing.assert_allclose(
            value.detach(), {**two.groups, **two.terms}[name].detach(), rtol=1e-12, err_msg=name
        )


def varied(kind, **settings):
    """Three of a method, with half, once and twice the usual strengths."""
    usual = kind()
    return [
        kind(**{name: getattr(usual, name) * scale for name in kind.strengths()}, **settings)
        for scale in (0.5, 1, 2)
    ]
