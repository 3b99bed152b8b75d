r"""A pendulum in three stages: its length, then its damping, then a latent that finds its mass.

    1. ŷ₀ = f(L)             fitted to curves without damping
    2. ŷ₁ = g(b, ŷ₀)         fitted to damped curves of mass 1
    3. z ~ q(z | θ - ŷ₁),  θ ~ N(h(ŷ₁, z), 0.25² I),  z ~ N(0, 1)

f, g and h have two hidden layers of 400 with sigmoids; the first two minimise the mean squared
error, the third -log p(θ | ŷ₁, z) + KL(q ‖ N(0, 1)). A stage is not changed by those after it. No
stage is ever told a mass.

A chain is a list of stages, each of which turns what is known so far into more: `known` is a
dictionary of tensors `[n, …]` by name, and stage after stage adds to it what it gives.

References:
    Improving the Reconstruction of Disentangled Representation Learners via Multi-Stage
    Modelling, Section 4.2 and Appendix D.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from unweave.data.pendulum import GRID, TIMES, simulate
from unweave.errors import DataError
from unweave.progress import lines
from unweave.random import Stream

__all__ = [
    "FLOOR",
    "PUBLISHED",
    "STD",
    "Chain",
    "Plan",
    "Regression",
    "ResidualVAE",
    "Stage",
    "draw",
    "through",
    "train",
]

STD = 0.25
"""Of a curve around what the last stage makes of it. The authors' code calls it a variance."""
FLOOR = TIMES * (math.log(STD) + math.log(2 * math.pi) / 2)
"""The negative log-likelihood of a curve that is met exactly, in nats."""
HIDDEN, RATE, BATCH = 400, 1e-3, 50
DEFAULTS = {"length": 1.0, "damping": 0.0, "mass": 1.0}
"""What a factor is where it does not vary."""

Known = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One stage, before it is trained.

    Args:
        gives: What it adds to what is known: a name for curves.
        takes: What it sees of what is known.
        varies: Factors that vary among its curves; the others are as in `DEFAULTS`.
        samples: How many curves it is trained on.
        epochs: How often it sees each.
        latent: Whether it has a latent, for what `takes` does not tell.
    """

    gives: str
    takes: tuple[str, ...]
    varies: tuple[str, ...]
    samples: int
    epochs: int
    latent: bool = False


PUBLISHED = (
    Plan(gives="undamped", takes=("length",), varies=("length",), samples=500, epochs=400),
    Plan(
        gives="damped",
        takes=("damping", "undamped"),
        varies=("length", "damping"),
        samples=2000,
        epochs=400,
    ),
    Plan(
        gives="angle",
        takes=("damped",),
        varies=("length", "damping", "mass"),
        samples=5000,
        epochs=200,
        latent=True,
    ),
)


class Regression(nn.Module):
    """A stage without a latent.

    Args:
        plan: What it takes and gives.
        inputs: The dimensions of what it takes, in all.
    """

    def __init__(self, plan: Plan, inputs: int) -> None:
        super().__init__()
        self.plan = plan
        self.network = _network(inputs)

    def forward(self, known: Mapping[str, Tensor]) -> Known:
        """What it adds."""
        return {self.plan.gives: self.network(_seen(known, self.plan))}

    def loss(self, known: Mapping[str, Tensor], noise: Tensor) -> Tensor:  # noqa: ARG002 - as below
        """The mean squared error."""
        return (self(known)[self.plan.gives] - known["seen"]).square().mean()


class ResidualVAE(nn.Module):
    """A stage whose latent z tells what the stages before it do not.

    Args:
        plan: What it takes and gives.
        inputs: The dimensions of what it takes, in all.
    """

    def __init__(self, plan: Plan, inputs: int) -> None:
        super().__init__()
        self.plan = plan
        self.encoder = nn.Sequential(nn.Linear(TIMES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
        self.network = _network(inputs + 1)

    def forward(self, known: Mapping[str, Tensor]) -> Known:
        """What it adds: curves of the z that is known, or else of the mean of a known curve's."""
        mean = known["z"] if "z" in known else self.encode(known)[0]
        return {"z": mean, self.plan.gives: self.decode(known, mean)}

    def encode(self, known: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Mean and variance of z `[n, 1]` for the curves `seen`."""
        if "seen" not in known:
            raise DataError("the last stage needs z, or the curves that it is to be read from")
        residual = known["seen"] - known[self.plan.takes[-1]]
        mean, variance = self.encoder(residual).chunk(2, -1)
        return mean, nn.functional.softplus(variance) + 1e-6

    def decode(self, known: Mapping[str, Tensor], z: Tensor) -> Tensor:
        """Curves of z `[n, 1]`."""
        curves: Tensor = self.network(torch.cat([_seen(known, self.plan), z], -1))
        return curves

    def terms(self, known: Mapping[str, Tensor], noise: Tensor) -> tuple[Tensor, Tensor]:
        """-log p(θ | ŷ₁, z) with z moved by noise `[n, 1]`, and KL(q ‖ N(0, 1)), `[n]` each."""
        mean, variance = self.encode(known)
        z = mean + variance.sqrt() * noise
        apart = (self.decode(known, z) - known["seen"]) / STD
        kl = (variance + mean.square() - 1 - variance.log()) / 2
        return apart.square().sum(-1) / 2 + FLOOR, kl.sum(-1)

    def loss(self, known: Mapping[str, Tensor], noise: Tensor) -> Tensor:
        """Their sum, in the mean."""
        misfit, kl = self.terms(known, noise)
        return (misfit + kl).mean()


Stage = Regression | ResidualVAE
Chain = tuple[Stage, ...]


@torch.no_grad()
def through(chain: Sequence[Stage], known: Mapping[str, Tensor]) -> Known:
    """Everything that is known after some stages.

    Args:
        chain: Trained stages, in order.
        known: Factors `[n, 1]` by name; `seen`, curves `[n, 100]` to read z from, or `z` `[n, 1]`.
    """
    found = dict(known)
    for stage in chain:
        found |= stage(found)
    return found


def train(
    plans: Sequence[Plan] = PUBLISHED, seed: int = 0, device: str = "cpu", progress: bool = True
) -> Chain:
    """Train the stages of a chain, one after the other.

    Args:
        plans: The stages; as published unless given.
        seed: Of curves, weights, batches and noise.
        device: `cpu` or `cuda`; networks are small, and a GPU is of little use.
        progress: Whether to show any.
    """
    chain: Chain = ()
    with lines({plan.gives: plan.epochs for plan in plans}, progress) as advance:
        for place, plan in enumerate(plans):
            known = _on(draw(plan.samples, plan.varies, seed, purpose=plan.gives), device)
            before = through(chain, known)
            inputs = sum(before[name].shape[-1] for name in plan.takes)
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed + place)
                stage = (ResidualVAE if plan.latent else Regression)(plan, inputs).to(device)
            optimiser = torch.optim.Adam(stage.parameters(), lr=RATE, fused=True)
            for epoch in range(plan.epochs):
                _epoch(stage, optimiser, before, Stream(seed, plan.gives, epoch))
                advance(plan.gives, 1)
            chain = (*chain, stage.eval().requires_grad_(False))
    return chain


def _epoch(
    stage: Stage, optimiser: torch.optim.Optimizer, known: Mapping[str, Tensor], stream: Stream
) -> None:
    """Every curve once, in a new order; what earlier stages made of them is computed already."""
    curves = known["seen"]
    order = stream.uniform64(len(curves)).argsort().to(curves.device)
    noise = replace(stream, purpose=f"noise of {stream.purpose}").normal(len(curves), 1)
    noise = noise.to(curves.device)
    for rows in order.split(BATCH):
        part = {name: known[name][rows] for name in (*stage.plan.takes, "seen")}
        optimiser.zero_grad()
        stage.loss(part, noise[rows]).backward()
        optimiser.step()


def draw(
    num: int,
    varies: Sequence[str],
    seed: int = 0,
    masses: Sequence[float] | None = None,
    purpose: str = "curves",
) -> Known:
    """Pendulums with factors drawn from the published grid.

    Args:
        num: How many.
        varies: Which factors are drawn; the others are as in `DEFAULTS`.
        seed: Of the draw.
        masses: Which masses there are; the five of the grid unless given.
        purpose: What they are for; other purposes draw others.

    Returns:
        Factors `[num, 1]` by name, and `seen`, their curves `[num, 100]`.
    """
    axes = {axis.name: np.asarray(axis.values) for axis in GRID.axes}
    axes |= {} if masses is None else {"mass": np.asarray(masses)}
    found = {}
    for name, default in DEFAULTS.items():
        high = len(axes[name])
        places = Stream(seed, f"{name} for {purpose}").integers(high, num, 1)[:, 0].numpy()
        found[name] = axes[name][places] if name in varies else np.full(num, default)
    # Many are drawn several times, and simulated once.
    every = np.stack(list(found.values()), 1)
    different, places = np.unique(every, axis=0, return_inverse=True)
    curves = simulate(*different.T)[places]
    known = {name: torch.as_tensor(numbers).float()[:, None] for name, numbers in found.items()}
    return {**known, "seen": torch.as_tensor(curves)}


def _network(inputs: int) -> nn.Sequential:
    sizes = (inputs, HIDDEN, HIDDEN)
    layers = [(nn.Linear(*pair), nn.Sigmoid()) for pair in pairwise(sizes)]
    return nn.Sequential(*(part for layer in layers for part in layer), nn.Linear(HIDDEN, TIMES))


def _seen(known: Mapping[str, Tensor], plan: Plan) -> Tensor:
    return torch.cat([known[name] for name in plan.takes], -1)


def _on(known: Known, device: str) -> Known:
    return {name: numbers.to(device) for name, numbers in known.items()}
