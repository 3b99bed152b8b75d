r"""Conditional flows of affine couplings, built on zuko's transforms.

A coupling leaves every other dimension, a, unchanged and transforms the rest, b; the next coupling
swaps their roles. After each coupling, all dimensions are normalised:

    b' = softplus(S(a, y)) b + T(a, y)        h' = γ (h - mean) / std + β

    log p(x | y) = log N(f(x); 0, I) + log |det ∂f/∂x|

S has two hidden layers with tanh, T two with ReLU. During training, mean and std are those of the
batch. Before a flow is used, `settle` computes them from all data: running statistics, as in
ordinary batch normalisation, lag behind the final weights and cost hundreds of nats.

Shapes: n points x of D dimensions with conditions y of C dimensions.

References:
    Dinh, Sohl-Dickstein and Bengio, Density estimation using Real NVP, arXiv:1605.08803.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import AffineTransform, Distribution, Normal, Transform, constraints
from zuko.distributions import NormalizingFlow
from zuko.nn import MLP
from zuko.transforms import ComposedTransform, CouplingTransform, DependentTransform

from unweave.papers.ms_vae.mixture import in_parts
from unweave.random import Stream

__all__ = ["ConditionalFlow", "Coupling", "Normalisation"]

# Importing zuko disables argument checks of all torch distributions; restore the default.
Distribution.set_default_validate_args(__debug__)

EPSILON = 1e-5
"""Constant added to variances, so that a constant dimension can be normalised."""
SMALLEST_SCALE = 1e-4
"""Constant added to softplus, so that a coupling can be inverted in float32."""
CHUNK = 2_000
"""Batch size of a flow without gradients."""


class Coupling(nn.Module):
    """One affine coupling.

    Args:
        features: Dimensions D of a point.
        context: Dimensions C of a condition.
        width: Width of both hidden layers of both networks.
        parity: Whether odd (1) or even (0) dimensions are unchanged.
    """

    def __init__(self, features: int, context: int, width: int, parity: int) -> None:
        super().__init__()
        mask = torch.arange(features) % 2 == parity
        unchanged = int(mask.sum())
        self.mask: Tensor
        self.register_buffer("mask", mask, persistent=False)
        sizes = {"in_features": unchanged + context, "out_features": features - unchanged}
        self.scale = MLP(**sizes, hidden_features=[width, width], activation=nn.Tanh)
        self.shift = MLP(**sizes, hidden_features=[width, width], activation=nn.ReLU)

    def forward(self, y: Tensor) -> Transform:
        """Transform given conditions `[n, C]`."""

        def affine(a: Tensor) -> Transform:
            inputs = torch.cat([a, y], -1)
            scale = nn.functional.softplus(self.scale(inputs)) + SMALLEST_SCALE
            return DependentTransform(AffineTransform(self.shift(inputs), scale), 1)

        return CouplingTransform(affine, self.mask)


class Normalisation(nn.Module):
    """Batch normalisation of every dimension, with its log-determinant."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.log_gain = nn.Parameter(torch.zeros(features))
        self.shift = nn.Parameter(torch.zeros(features))
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))

    def forward(self, y: Tensor) -> Transform:  # noqa: ARG002 - the signature of a coupling
        """Transform by batch statistics in training mode, otherwise by those of `settle`."""
        return _ByBatch(self) if self.training else self.by(self.mean, self.variance)

    def by(self, mean: Tensor, variance: Tensor) -> Transform:
        """Normalise by a mean and a variance `[D]`."""
        scale = self.log_gain.exp() / (variance + EPSILON).sqrt()
        return DependentTransform(AffineTransform(self.shift - mean * scale, scale), 1)

    def settle(self, h: Tensor) -> None:
        """Store the mean and the variance of points `[n, D]`."""
        self.mean.copy_(h.mean(0, dtype=torch.float64))
        self.variance.copy_(h.double().var(0, correction=0))


class _ByBatch(Transform):
    """Normalisation by the statistics of its input; not invertible."""

    domain = codomain = constraints.real_vector

    def __init__(self, layer: Normalisation) -> None:
        super().__init__()
        self.layer = layer

    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        transform: Any = self.layer.by(x.mean(0), x.var(0, correction=0))
        normalised: tuple[Tensor, Tensor] = transform.call_and_ladj(x)
        return normalised


class ConditionalFlow(nn.Module):
    """Couplings with alternating halves, each followed by a normalisation.

    Args:
        features: Dimensions D of a point, at least 2.
        context: Dimensions C of a condition.
        couplings: Number of couplings.
        width: Width of the hidden layers.
        seed: Seed of the initial weights.
    """

    def __init__(
        self, features: int, context: int, couplings: int = 5, width: int = 1000, seed: int = 0
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            layers: list[nn.Module] = []
            for place in range(couplings):
                layers += [Coupling(features, context, width, place % 2), Normalisation(features)]
        self.features = features
        self.layers = nn.ModuleList(layers)

    def transform(self, y: Tensor) -> Any:
        """Transform f from points to noise, given conditions `[n, C]`."""
        return ComposedTransform(*(layer(y) for layer in self.layers))

    def distribution(self, y: Tensor) -> Any:
        """Distribution of points given conditions `[n, C]`, as a zuko distribution."""
        zero = torch.zeros(len(y), self.features, device=y.device)
        noise = Normal(zero, torch.ones_like(zero), validate_args=False)
        return NormalizingFlow(self.transform(y), noise)

    def log_density(self, x: Tensor, y: Tensor) -> Tensor:
        """log p(x | y), `[n]`; in training mode with the statistics of these points."""
        found: Tensor = self.distribution(y).log_prob(x)
        return found

    @torch.no_grad()
    def sample(self, y: Tensor, seed: int = 0) -> Tensor:
        """Sample a point `[n, D]` for each condition `[n, C]`."""
        key = torch.tensor(seed, device=y.device)
        noise = in_parts(Stream(key, "flow").normal, len(y), y.new_empty(self.features))
        return torch.cat([self.transform(c).inv(z) for c, z in _chunks(y, noise)])

    @torch.no_grad()
    def settle(self, x: Tensor, y: Tensor) -> None:
        """Recompute the statistics of every normalisation from all points and conditions."""
        self.eval()
        h = x
        for layer in self.layers:
            if isinstance(layer, Normalisation):
                layer.settle(h)
            h = torch.cat([layer(c)(part) for c, part in _chunks(y, h)])

    @torch.no_grad()
    def log_densities(self, x: Tensor, y: Tensor) -> Tensor:
        """log p(x | y) of many points, in evaluation mode, without gradients, `[n]`."""
        self.eval()
        return torch.cat([self.log_density(part, c) for c, part in _chunks(y, x)])


def _chunks(y: Tensor, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(y.split(CHUNK), x.split(CHUNK), strict=True)
