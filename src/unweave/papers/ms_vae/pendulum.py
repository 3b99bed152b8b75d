r"""A pendulum model in three stages: its length, its damping, and a latent that finds its mass.

    1. ŷ₀ = f(L)             fitted to curves without damping
    2. ŷ₁ = g(b, ŷ₀)         fitted to damped curves of mass 1
    3. z ~ q(z | θ - ŷ₁),  θ ~ N(h(ŷ₁, z), 0.25² I),  z ~ N(0, 1)

f, g and h have two hidden layers of 400 with sigmoids; the first two minimise the mean squared
error, the third -log p(θ | ŷ₁, z) + KL(q ‖ N(0, 1)). Earlier stages are frozen while later ones
are trained. No stage observes a mass.

A chain is a sequence of stages. `known` is a dictionary of tensors `[n, …]` by name, to which each
stage adds its output.

References:
    Improving the Reconstruction of Disentangled Representation Learners via Multi-Stage
    Modelling, Section 4.2 and Appendix D.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from scipy.stats import pearsonr, spearmanr
from torch import Tensor, nn

from unweave.data.pendulum import GRID, STEP, TIMES, simulate
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
    "apply",
    "codes",
    "draw",
    "evaluate",
    "explained_variance",
    "train",
    "traversals",
    "z_of_mass",
]

STD = 0.25
"""Standard deviation of a curve around its reconstruction; a variance in the authors' code."""
FLOOR = TIMES * (math.log(STD) + math.log(2 * math.pi) / 2)
"""Negative log-likelihood of an exactly reconstructed curve, in nats."""
HIDDEN, RATE, BATCH = 400, 1e-3, 50
DEFAULTS = {"length": 1.0, "damping": 0.0, "mass": 1.0}
"""Values of factors that do not vary."""
MASSES = tuple(np.linspace(0.1, 2, 30).tolist())
"""Masses used for evaluation, more than those in the training data."""
CENTRE = {"length": 2.0, "damping": 1.0, "mass": 1.5}
"""Pendulum at the centre of all traversals."""

Known = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Configuration of one stage.

    Args:
        gives: Name of its output curves.
        takes: Names of its inputs.
        varies: Factors that vary in its training data; the others are as in `DEFAULTS`.
        samples: Number of training curves.
        epochs: Training epochs.
        latent: Whether it has a latent, for information that is missing in `takes`.
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
    """A stage without a latent, with `inputs` input dimensions."""

    def __init__(self, plan: Plan, inputs: int) -> None:
        super().__init__()
        self.plan = plan
        self.network = _network(inputs)

    def forward(self, known: Mapping[str, Tensor]) -> Known:
        """Output of the stage."""
        return {self.plan.gives: self.network(_inputs(known, self.plan))}

    def loss(self, known: Mapping[str, Tensor], noise: Tensor) -> Tensor:  # noqa: ARG002 - as below
        """Mean squared error."""
        return (self(known)[self.plan.gives] - known["observed"]).square().mean()


class ResidualVAE(nn.Module):
    """A stage whose latent z encodes what the previous stages do not explain."""

    def __init__(self, plan: Plan, inputs: int) -> None:
        super().__init__()
        self.plan = plan
        self.encoder = nn.Sequential(nn.Linear(TIMES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
        self.network = _network(inputs + 1)

    def forward(self, known: Mapping[str, Tensor]) -> Known:
        """Output of the stage: curves decoded from a known z, or from the posterior mean."""
        mean = known["z"] if "z" in known else self.encode(known)[0]
        return {"z": mean, self.plan.gives: self.decode(known, mean)}

    def encode(self, known: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Mean and variance of z `[n, 1]` for the `observed` curves."""
        if "observed" not in known:
            raise DataError(
                "the last stage needs z or observed curves; add 'z' or 'observed'",
                subject="observed",
            )
        residual = known["observed"] - known[self.plan.takes[-1]]
        mean, variance = self.encoder(residual).chunk(2, -1)
        return mean, nn.functional.softplus(variance) + 1e-6

    def decode(self, known: Mapping[str, Tensor], z: Tensor) -> Tensor:
        """Curves decoded from z `[n, 1]`."""
        curves: Tensor = self.network(torch.cat([_inputs(known, self.plan), z], -1))
        return curves

    def terms(self, known: Mapping[str, Tensor], noise: Tensor) -> tuple[Tensor, Tensor]:
        """-log p(θ | ŷ₁, z), with z sampled by noise `[n, 1]`, and KL(q ‖ N(0, 1)), each `[n]`."""
        mean, variance = self.encode(known)
        z = mean + variance.sqrt() * noise
        error = (self.decode(known, z) - known["observed"]) / STD
        kl = (variance + mean.square() - 1 - variance.log()) / 2
        return error.square().sum(-1) / 2 + FLOOR, kl.sum(-1)

    def loss(self, known: Mapping[str, Tensor], noise: Tensor) -> Tensor:
        """Mean of the sum of both `terms`."""
        nll, kl = self.terms(known, noise)
        return (nll + kl).mean()


Stage = Regression | ResidualVAE
Chain = tuple[Stage, ...]


@torch.no_grad()
def apply(chain: Sequence[Stage], known: Mapping[str, Tensor]) -> Known:
    """Apply stages in order and return inputs and outputs by name.

    `known` are factors `[n, 1]`, and `observed` curves `[n, 100]` to infer z, or `z` `[n, 1]`.
    """
    device = next(chain[0].parameters()).device
    found = {name: numbers.to(device) for name, numbers in known.items()}
    for stage in chain:
        found |= stage(found)
    return found


def train(
    plans: Sequence[Plan] = PUBLISHED, seed: int = 0, device: str = "cpu", progress: bool = True
) -> Chain:
    """Train the stages of a chain, one after the other.

    Args:
        plans: Configuration of the stages (default: the published ones).
        seed: Seed of curves, weights, batches and noise.
        device: Device, `cpu` or `cuda`; the networks are too small to benefit from a GPU.
        progress: Whether to show progress.
    """
    chain: Chain = ()
    with lines({plan.gives: plan.epochs for plan in plans}, progress) as advance:
        for place, plan in enumerate(plans):
            drawn = draw(plan.samples, plan.varies, seed, purpose=plan.gives)
            outputs = apply(chain, drawn) if chain else drawn
            outputs = {name: numbers.to(device) for name, numbers in outputs.items()}
            inputs = sum(outputs[name].shape[-1] for name in plan.takes)
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed + place)
                stage = (ResidualVAE if plan.latent else Regression)(plan, inputs).to(device)
            optimiser = torch.optim.Adam(stage.parameters(), lr=RATE, fused=True)
            for epoch in range(plan.epochs):
                _epoch(stage, optimiser, outputs, Stream(seed, plan.gives, epoch))
                advance(plan.gives, 1)
            chain = (*chain, stage.eval().requires_grad_(False))
    return chain


def _epoch(
    stage: Stage, optimiser: torch.optim.Optimizer, known: Mapping[str, Tensor], stream: Stream
) -> None:
    """Train for one epoch in a new random order, on precomputed outputs of earlier stages."""
    curves = known["observed"]
    order = stream.uniform64(len(curves)).argsort().to(curves.device)
    noise = replace(stream, purpose=f"noise of {stream.purpose}").normal(len(curves), 1)
    noise = noise.to(curves.device)
    for rows in order.split(BATCH):
        part = {name: known[name][rows] for name in (*stage.plan.takes, "observed")}
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
    """Simulate pendulums with factors sampled from the published grid.

    Args:
        num: Number of pendulums.
        varies: Factors to sample; the others are as in `DEFAULTS`.
        seed: Seed of the sample.
        masses: Possible masses (default: the five of the grid).
        purpose: Label of the random stream; different purposes give different samples.

    Returns:
        Factors `[num, 1]` by name, and `observed`, their curves `[num, 100]`.
    """
    axes = {axis.name: np.asarray(axis.values) for axis in GRID.axes}
    axes |= {} if masses is None else {"mass": np.asarray(masses)}
    found = {}
    for name, default in DEFAULTS.items():
        high = len(axes[name])
        places = Stream(seed, f"{name} for {purpose}").integers(high, num, 1)[:, 0].numpy()
        found[name] = axes[name][places] if name in varies else np.full(num, default)
    # Simulate repeated pendulums only once.
    every = np.stack(list(found.values()), 1)
    different, places = np.unique(every, axis=0, return_inverse=True)
    curves = simulate(*different.T)[places]
    known = {name: torch.as_tensor(numbers).float()[:, None] for name, numbers in found.items()}
    return {**known, "observed": torch.as_tensor(curves)}


def _network(inputs: int) -> nn.Sequential:
    sizes = (inputs, HIDDEN, HIDDEN)
    layers = [(nn.Linear(*pair), nn.Sigmoid()) for pair in pairwise(sizes)]
    return nn.Sequential(*(part for layer in layers for part in layer), nn.Linear(HIDDEN, TIMES))


def _inputs(known: Mapping[str, Tensor], plan: Plan) -> Tensor:
    return torch.cat([known[name] for name in plan.takes], -1)


def codes(chain: Sequence[Stage], num: int = 500, seed: int = 0) -> pd.DataFrame:
    """Table of `length`, `damping`, `mass` and inferred `z` of new pendulums."""
    known = _evaluated(chain, num, seed)
    return pd.DataFrame({name: known[name][:, 0].cpu().numpy() for name in (*DEFAULTS, "z")})


def evaluate(
    chain: Sequence[Stage], num: int = 500, seed: int = 0, masses: Sequence[float] = MASSES
) -> dict[str, float]:
    """Evaluate a chain on new pendulums.

    Returns:
        `pearson`, `spearman`: absolute correlations of z and mass, since the sign is arbitrary;
        `rmse_before`, `rmse_after`: errors of curves without and with z; `nll`, `kl`, `loss`: nats
        per curve, with one sample of z; `floor`: `nll` of exactly reconstructed curves.
    """
    known = _evaluated(chain, num, seed, masses)
    z, mass = (known[name][:, 0].cpu().numpy() for name in ("z", "mass"))
    last = chain[-1]
    assert isinstance(last, ResidualVAE)
    noise = Stream(seed, "evaluation").normal(num, 1).to(known["z"].device)
    with torch.no_grad():
        nll, kl = (float(term.double().mean()) for term in last.terms(known, noise))
    before, after = (
        math.sqrt(float((known[name] - known["observed"]).double().square().mean()))
        for name in (last.plan.takes[-1], last.plan.gives)
    )
    return {
        "pearson": abs(float(pearsonr(z, mass)[0])),
        "spearman": abs(float(spearmanr(z, mass)[0])),
        "rmse_before": before,
        "rmse_after": after,
        "nll": nll,
        "kl": kl,
        "loss": nll + kl,
        "floor": FLOOR,
    }


def z_of_mass(chain: Sequence[Stage], masses: Iterable[float], num: int = 100) -> np.ndarray:
    """Mean inferred z of pendulums of each mass; its sign is arbitrary."""
    every = np.array(list(masses))
    sample = draw(num, ("length", "damping"), purpose="z of mass")
    known = {name: sample[name].repeat(len(every), 1) for name in ("length", "damping")}
    known["mass"] = _column(every.repeat(num))
    curves = simulate(*(known[name][:, 0].numpy() for name in DEFAULTS))
    found = apply(chain, {**known, "observed": torch.as_tensor(curves)})
    return found["z"].double().reshape(len(every), num).mean(1).cpu().numpy()


def traversals(chain: Sequence[Stage]) -> pd.DataFrame:
    """Compute curves along traversals of one variable, with all others fixed.

    Returns:
        Rows with `factor` (length, damping or z), `value` (the length, the damping, or the mass
        that corresponds to z), `time`, `angle` and `simulated`, the angle in the simulator.
    """
    axes = {axis.name: np.asarray(axis.values) for axis in GRID.axes}
    paths = {"length": axes["length"], "damping": axes["damping"], "z": np.array(MASSES)}
    parts = []
    for factor, values in paths.items():
        pendulums = {name: np.full(len(values), at) for name, at in CENTRE.items()}
        pendulums["mass" if factor == "z" else factor] = values
        latent = z_of_mass(chain, values if factor == "z" else [CENTRE["mass"]])
        latent = np.broadcast_to(latent, len(values)).copy()
        known = {name: _column(numbers) for name, numbers in pendulums.items()}
        made = apply(chain, {**known, "z": _column(latent)})
        parts.append(
            pd.DataFrame(
                {
                    "factor": factor,
                    "value": np.repeat(values, TIMES),
                    "time": np.tile(np.arange(TIMES) * STEP, len(values)),
                    "angle": made[chain[-1].plan.gives].cpu().numpy().ravel(),
                    "simulated": simulate(*pendulums.values()).ravel(),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def explained_variance(curves: pd.DataFrame) -> dict[str, float]:
    """Explained share of the variance of simulated curves along a traversal, by factor.

    1 - Σ (angle - simulated)² / Σ (simulated - its mean over the traversal)²
    """
    found = {}
    for factor, rows in curves.groupby("factor", sort=False):
        middle = rows.groupby("time")["simulated"].transform("mean")
        missed = ((rows["angle"] - rows["simulated"]) ** 2).sum()
        found[str(factor)] = float(1 - missed / ((rows["simulated"] - middle) ** 2).sum())
    return found


def _evaluated(
    chain: Sequence[Stage], num: int, seed: int, masses: Sequence[float] = MASSES
) -> Known:
    return apply(chain, draw(num, tuple(DEFAULTS), seed, masses, purpose="evaluation"))


def _column(numbers: np.ndarray) -> Tensor:
    return torch.as_tensor(numbers).float()[:, None]
