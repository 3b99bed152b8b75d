"""Second stages of tiny networks over tiny first stages, and real ones over a small grid.

M = 3 models, B = 5 images of 4 × 4 pixels, |C| = 2 codes of the first stage, |Z| = 3 latents.
"""

from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

import unweave as uw
from tests.methods.small_fleet import DATA_SIZE, IMAGES, MODELS, random
from unweave.fleet.engine import Engine
from unweave.methods import Batch, BetaVAE, Nets
from unweave.methods.base import Stage
from unweave.models.config import Config
from unweave.nets.adam import Adam
from unweave.nets.layers import Linear, Reshape
from unweave.nets.likelihoods import LIKELIHOODS, mean_image
from unweave.nets.network import Network

BEFORE, LATENTS = 2, 3
FIRST = {
    "encoder": Network((Reshape((16,)), Linear(16, 2 * BEFORE, "tanh"))),
    "decoder": Network((Linear(BEFORE, 16, "none"), Reshape((4, 4, 1)))),
}


@dataclass(frozen=True, eq=False)
class SmallStages:
    """Networks of two stages with parameters, and what one step of training gives them."""

    networks: dict[str, Network]
    parameters: dict[str, Tensor]
    first: dict[str, Tensor]
    images: Tensor
    indices: Tensor
    seeds: Tensor
    step: Tensor

    @classmethod
    def make(cls, networks):
        own = {
            n: random(MODELS, net.width, seed=k) / 2 for k, (n, net) in enumerate(networks.items())
        }
        first = {
            n: random(MODELS, net.width, seed=20 + k) for k, (n, net) in enumerate(FIRST.items())
        }
        return cls(
            networks,
            own,
            first,
            random(MODELS, IMAGES, 4, 4, 1, seed=10).sigmoid(),
            torch.arange(MODELS * IMAGES).reshape(MODELS, IMAGES) % DATA_SIZE,
            torch.tensor([5, 0, 2**40 + 1]),
            torch.tensor(30_000),
        )

    def alone(self, m):
        """Model m by itself."""
        only = slice(m, m + 1)
        return replace(
            self,
            parameters={name: buffer[only] for name, buffer in self.parameters.items()},
            first={name: buffer[only] for name, buffer in self.first.items()},
            images=self.images[only],
            indices=self.indices[only],
            seeds=self.seeds[only],
        )

    def tracked(self):
        """With parameters to differentiate by, of both stages."""
        return replace(
            self,
            parameters={n: p.clone().requires_grad_() for n, p in self.parameters.items()},
            first={n: p.clone().requires_grad_() for n, p in self.first.items()},
        )

    def nets(self):
        apply = {n: partial(net, self.parameters[n]) for n, net in self.networks.items()}
        below = {n: partial(net, self.first[n]) for n, net in FIRST.items()}
        likelihood = LIKELIHOODS["bernoulli"]
        mean = partial(mean_image, "bernoulli")
        first = Stage(BetaVAE(), Nets(below, likelihood), BEFORE, mean)
        return Nets(apply, likelihood, first, LATENTS)

    def batch(self):
        return Batch(self.images, self.seeds, self.step, DATA_SIZE, indices=self.indices)

    def losses(self, *methods):
        """The losses of these methods, one per model."""
        return type(methods[0]).stack(methods).losses(self.nets(), self.batch())


def differences(stages, methods, group, name, width=1e-5):
    """Derivatives of a group's loss by some parameters of a network, one column after another."""
    size = len(stages.networks[name])
    for column in (0, size // 3, size // 2, size - 4, size - 1):
        sides = []
        for step in (width, -width):
            moved = stages.parameters[name].clone()
            moved[:, column] += step
            elsewhere = replace(stages, parameters={**stages.parameters, name: moved})
            sides.append(elsewhere.losses(*methods).groups[group])
        yield column, (sides[0] - sides[1]) / (2 * width)


def blobs():
    """A blob, or a ring, at 6 × 6 places, 32 pixels wide."""
    at = np.arange(32)
    images = np.zeros((2, 6, 6, 32, 32, 1))
    for hole, down, right in np.ndindex(2, 6, 6):
        far = (at[:, None] - 6 - 4 * down) ** 2 + (at - 6 - 4 * right) ** 2
        images[hole, down, right, ..., 0] = np.exp(-far / 50) - hole * np.exp(-far / 8)
    factors = np.stack(np.indices((2, 6, 6)), -1).reshape(-1, 3)
    pixels = np.rint(255 * images).astype(np.uint8).reshape(-1, 32, 32, 1)
    return uw.data.load(pixels, factors=factors)


@cache
def first_stage():
    """A VAE of the blobs with two latents, which know where a blob is, and not of its hole."""
    return uw.train(
        BetaVAE(beta=1),
        blobs(),
        steps=400,
        batch=16,
        latents=2,
        architecture="small_mlp",
        optimiser=Adam(lr=3e-3),
        device="cpu",
        progress=False,
    )


def second_runs(methods, seeds, latents=3, **settings):
    """Runs over β-VAEs with two latents, and these as they begin."""
    below = Config(method=BetaVAE(), latents=2, architecture="small_mlp", seed=1)
    return [
        Config(
            method=method,
            seed=seed,
            batch=4,
            latents=latents,
            architecture="small_dcgan",
            first=below,
            **settings,
        )
        for method, seed in zip(methods, seeds, strict=True)
    ]


def same_alone(runs, data):
    """Check that real models have the gradients and losses in a fleet that each has alone.

    Weights are not compared: biases before a normalisation have no gradient but that of rounding,
    which Adam makes as large as any other.
    """
    together = Engine(runs, data, "cpu")
    together.advance(1)
    gradients = {n: group.moments.first.clone() for n, group in together.groups.items()}
    together.advance(1)
    losses = together.fetch()
    for m, run in enumerate(runs):
        alone = Engine([run], data, "cpu")
        alone.advance(1)
        for name, group in alone.groups.items():
            own, expected = group.moments.first[0], gradients[name][m]
            if not own.numel():  # it is frozen
                continue
            torch.testing.assert_close(
                own, expected, rtol=1e-3, atol=1e-5 * float(own.abs().max())
            )
        alone.advance(1)
        torch.testing.assert_close(alone.fetch()[:, 0], losses[:, m], rtol=1e-3, atol=1e-5)
