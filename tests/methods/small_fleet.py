"""A fleet of tiny networks for objectives, and the pieces of the textbook's losses.

M = 3 models, B = 5 images of 4 × 4 pixels, d = 3 latents, and 2 of a first stage: all different,
so that no wrong axis passes unseen. The parameters of a model with members lie side by side in
its row. The textbook's pieces are loops over plain numbers, one model and image at a time.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from unweave.methods import Auxiliary, Batch, BetaVAE, Nets
from unweave.methods.base import NetworkSpec, Stage
from unweave.methods.batch import member_seeds
from unweave.nets.layers import (
    Contrast,
    Conv,
    ConvTranspose,
    Linear,
    Maps,
    Offsets,
    Reshape,
    Spreads,
)
from unweave.nets.likelihoods import LIKELIHOODS, mean_image
from unweave.nets.likelihoods import mean as mean_of
from unweave.nets.network import Network
from unweave.nets.norms import AdaptiveNorm
from unweave.random import Stream

MODELS, IMAGES, LATENTS, BEFORE = 3, 5, 3, 2
CODES = 2
"""Number of InfoGAN's latents that can be recovered."""
DATA_SIZE = 11
CLASSES = 4
"""Number of values of an auxiliary factor."""
SMALLER = {
    "infogan": {"codes": CODES},
    "from_factors": {"known_factors": "a,b,c"},
    "bio_ae": {"sums": True},  # which has all strengths
    "ivae": {"factor": "a", "classes": CLASSES},
}
"""Settings for a small number of latents."""

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


ADAPTIVE = Network(
    (
        Conv(1, 2, 2, relu=False),
        AdaptiveNorm(2, LATENTS, "none"),
        ConvTranspose(2, 1, 2, relu=False),
    )
)
"""From an image of the first stage and a code to an image."""


def _judge(channels):
    return Network((Conv(channels, 2, 2, relu=False), Reshape((8,)), Linear(8, 1, "none")))


def _linear_decoder(inputs, side=4):
    return Network((Linear(inputs, side**2, "none"), Reshape((side, side, 1))))


OWN_NETWORKS = {
    "ms_vae": {"encoder": NETWORKS["encoder"], "decoder": ADAPTIVE},
    "ms_gan": {"decoder": ADAPTIVE, "discriminator": _judge(2)},
    "cgan": {"decoder": _linear_decoder(BEFORE + LATENTS), "discriminator": _judge(1 + BEFORE)},
    "jacobian": {
        "encoder": Network((Reshape((16,)), Linear(16, BEFORE + LATENTS, "tanh"))),
        "decoder": _linear_decoder(BEFORE + LATENTS),
    },
    "infogan": {
        "decoder": _linear_decoder(LATENTS),
        "body": Network((Reshape((16,)), Linear(16, 7, "tanh"))),
        "discriminator": Network((Linear(7, 1, "none"),)),
        "reader": Network((Linear(7, 2 * CODES, "none"), Spreads())),
    },
    "from_factors": {"decoder": _linear_decoder(LATENTS)},
    # Chosen so that the discriminator of one model beats chance, and that its count is positive.
    "dava": {
        "discriminator": Network(
            (Conv(1, 3, 2, relu=False), Reshape((12,)), Linear(12, 1, "none"))
        ),
        "progress": Network((Offsets(1), Offsets(1), Offsets(1))),
    },
}
"""Tiny networks of methods whose inputs or outputs differ from those of a VAE."""


def groups_of(method):
    """The networks of a method by group and name: tiny ones, or its own where there are none."""
    if "small_mlp" in method.architectures:
        spec = NetworkSpec("small_mlp", (4, 4, 1), LATENTS, BEFORE)
        known = {**NETWORKS, **OWN_NETWORKS.get(method.name, {})}
    else:
        spec = NetworkSpec("small_dcgan", (32, 32, 1), LATENTS, BEFORE)
        known = OWN_NETWORKS.get(method.name, {})
    return {
        group: {name: known.get(name, network) for name, network in networks.items()}
        for group, networks in method.networks(spec).items()
    }


BERNOULLI = LIKELIHOODS["bernoulli"]


def first_networks(side):
    """The first stage, for images so wide."""
    encoder = Network((Reshape((side**2,)), Linear(side**2, 2 * BEFORE, "tanh")))
    return {"encoder": encoder, "decoder": _linear_decoder(BEFORE, side)}


def random(*shape, seed):
    """Standard normal float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class SmallFleet:
    """Networks with parameters, and what one step of training gives them."""

    networks: dict[str, Network]
    parameters: dict[str, Tensor]
    first: dict[str, Tensor]
    images: Tensor
    partners: Tensor
    factors: Tensor
    indices: Tensor
    seeds: Tensor
    step: Tensor
    likelihood: str = "bernoulli"
    members: int = 1

    @classmethod
    def make(cls, members=1, networks=None, side=4):
        networks = NETWORKS if networks is None else networks
        first = first_networks(side)
        return cls(
            networks,
            {
                name: random(MODELS, members * network.width, seed=place) / 2
                for place, (name, network) in enumerate(networks.items())
            },
            {
                name: random(MODELS, network.width, seed=20 + place)
                for place, (name, network) in enumerate(first.items())
            },
            random(MODELS, IMAGES, side, side, 1, seed=10).sigmoid(),
            random(MODELS, IMAGES, side, side, 1, seed=11).sigmoid(),
            random(MODELS, IMAGES, LATENTS, seed=12),
            torch.arange(MODELS * IMAGES).reshape(MODELS, IMAGES) % DATA_SIZE,
            torch.tensor([5, 0, 2**40 + 1]),
            torch.tensor(30_000),
            members=members,
        )

    @classmethod
    def of(cls, method):
        """The fleet of a method, with tiny networks where there are some for it."""
        networks = {n: net for group in groups_of(method).values() for n, net in group.items()}
        tiny = "small_mlp" in method.architectures or method.name in OWN_NETWORKS
        made = cls.make(method.num_members, networks, 4 if tiny else 32)
        if not isinstance(method, Auxiliary):
            return made
        return replace(made, factors=(made.indices * 7 % CLASSES)[..., None])

    def alone(self, m):
        """Return model m as a fleet of one."""
        only = slice(m, m + 1)
        parts = ("images", "partners", "factors", "indices", "seeds")
        return replace(
            self,
            parameters={name: buffer[only] for name, buffer in self.parameters.items()},
            first={name: buffer[only] for name, buffer in self.first.items()},
            **{name: getattr(self, name)[only] for name in parts},
        )

    def tracked(self):
        """With parameters to differentiate by, of both stages."""
        return replace(
            self,
            parameters={n: p.clone().requires_grad_() for n, p in self.parameters.items()},
            first={n: p.clone().requires_grad_() for n, p in self.first.items()},
        )

    def nets(self):
        apply = {n: partial(net, self.rows(n)) for n, net in self.networks.items()}
        below = first_networks(self.images.shape[2]).items()
        first = Nets({n: partial(net, self.first[n]) for n, net in below}, BERNOULLI)
        stage = Stage(BetaVAE(), first, BEFORE, partial(mean_image, "bernoulli"))
        likelihood, average = LIKELIHOODS[self.likelihood], partial(mean_of, self.likelihood)
        return Nets(apply, likelihood, stage, LATENTS, average, self.weights)

    def weights(self, name):
        """The weights of a network, without biases."""
        named = self.networks[name].named(self.rows(name))
        return [value for parameter, value in named if parameter.endswith("weight")]

    def rows(self, name):
        """The parameters of a network, a row for each member of each model."""
        return self.parameters[name].unflatten(1, (self.members, -1)).flatten(0, 1)

    def batch(self):
        return Batch(
            self.images,
            self.seeds,
            self.step,
            DATA_SIZE,
            self.partners,
            self.member_seeds() if self.members > 1 else None,
            self.indices,
            self.factors,
        )

    def member_seeds(self):
        return member_seeds(self.seeds, self.members)

    def losses(self, *methods):
        """The losses of these methods, one per model."""
        return type(methods[0]).stack(methods).losses(self.nets(), self.batch())

    def network(self, name, m, x, member=0):
        """Apply a network of model m to a single input, as plain numbers."""
        x = torch.as_tensor(x, dtype=torch.float64)[None, None]
        row = m * self.members + member
        return self.networks[name](self.rows(name)[row : row + 1], x).flatten().tolist()

    def posteriors(self, m, images=None, member=0):
        """(mean, log-variance) of every image of model m."""
        images = self.images if images is None else images
        both = [self.network("encoder", m, image, member) for image in images[m]]
        return [(out[:LATENTS], out[LATENTS:]) for out in both]

    def noise(self, m, purpose="posterior", member=0):
        """Model m's own standard normal numbers."""
        seed = int(self.member_seeds()[m * self.members + member])
        return Stream(seed, purpose, int(self.step)).normal(IMAGES, LATENTS).tolist()

    def drawn_codes(self, m):
        """Of each image of model m: itself, and its code of the first stage as it is drawn."""
        first, seed = self.alone(m).nets().first, int(self.seeds[m])
        for b in range(IMAGES):
            image = self.images[m : m + 1, b : b + 1]
            q = first.encode(image)
            noise = Stream(seed, "first stage").normal(self.indices[m, b : b + 1], BEFORE)
            yield (
                image,
                sample(q.mu.flatten().tolist(), q.logvar.flatten().tolist(), noise[0].tolist()),
            )

    def generator_noise(self, m):
        """The noise of a generator for model m, `[IMAGES, LATENTS]`."""
        return Stream(int(self.seeds[m]), "generator", int(self.step)).normal(IMAGES, LATENTS)

    def cross_entropy(self, m, z, image, member=0):
        """-log p(x|z), summed over the pixels of one image."""
        return cross_entropy(self.network("decoder", m, z, member), image)

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


def cross_entropy(logits, image):
    """-log p(x), summed over the pixels of one image."""
    total = 0.0
    for logit, x in zip(logits, image.flatten().tolist(), strict=True):
        total -= x * math.log(probability(logit)) + (1 - x) * math.log(1 - probability(logit))
    return total


def probability(logit):
    return 1 / (1 + math.exp(-logit))


def judged(real, fake):
    """Losses and terms of the logits of a discriminator, by the textbook."""
    of_real = mean(-math.log(probability(logit)) for logit in real)
    of_fake = mean(-math.log(1 - probability(logit)) for logit in fake)
    return {
        "model": mean(-math.log(probability(logit)) for logit in fake),
        "discriminator": (of_real + of_fake) / 2,
        "judged_real": mean(map(probability, real)),
        "judged_fake": mean(map(probability, fake)),
    }


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


def equal(one, two, rtol=1e-12):
    """Check that two evaluations gave the same losses and terms, to the last digits."""
    assert list(one.groups) == list(two.groups)
    assert list(one.terms) == list(two.terms)
    for name, value in {**one.groups, **one.terms}.items():
        np.testing.assert_allclose(
            value.detach(), {**two.groups, **two.terms}[name].detach(), rtol=rtol, err_msg=name
        )


def varied(kind, **settings):
    """Return three methods, with 0.5, 1 and 2 times the default strengths, or 1 in place of 0."""
    settings = {**SMALLER.get(kind.name, {}), **settings}
    usual = kind()
    return [
        kind(**{n: (getattr(usual, n) or 1) * scale for n in kind.strengths()} | settings)
        for scale in (0.5, 1, 2)
    ]
