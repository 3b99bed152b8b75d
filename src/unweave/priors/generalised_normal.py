"""p-generalised normal distribution: independent latents, the prior of ICA.

    p(z) = Π_j p_j / (2 Γ(1/p_j) s^(1/p_j)) exp(-|z_j|^p_j / s)

The paper's τ is 1 / s. Exponents below 2 are leptokurtic (1 is Laplace), those above platykurtic
(∞ is uniform). In terms of the paper's κ, p = 2 / (1 + κ). If all exponents are equal, this is the
Lp-nested distribution without subspaces, `"20x1"`; `lp_nested` describes the scale and the floor
near zero. Scale 2 with exponent 2 is the standard normal distribution.

References:
    Stühmer, Turner and Nowozin, Independent Subspace Analysis for Unsupervised Learning of
    Disentangled Representations, arXiv:1909.05063, Equation 5; Goodman and Kotz, Multivariate
    θ-generalized normal distributions, 1973.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

from unweave.priors.gammas import log_gammas
from unweave.priors.lp_nested import STANDARD
from unweave.priors.nodes import log_of, log_size

__all__ = ["GeneralisedNormal", "log_density", "unit_scale"]


def log_density(z: Tensor, exponents: Tensor, scale: float | Tensor = STANDARD) -> Tensor:
    """Compute log p(z) of codes, in nats.

    Args:
        z: Codes `[*S, B, d]`.
        exponents: One exponent per latent, `[*S, d]`, or one for all, `[*S, 1]`.
        scale: s, a number or a tensor that broadcasts with the exponents.

    Returns:
        Log-densities `[*S, B]`.

    Example:
        >>> log_density(torch.tensor([[0.0, 1.0]]), torch.tensor([1.0]), scale=1.0)
        tensor([-2.3863])
    """
    scale = scale[..., None, :] if isinstance(scale, Tensor) else scale
    return _log_each(z, exponents[..., None, :], scale).sum(-1)


def unit_scale(exponents: Tensor) -> Tensor:
    """Return the scale with variance 1, (Γ(1/p) / Γ(3/p))^(p/2).

    Example:
        >>> unit_scale(torch.tensor([1.0, 2.0]))
        tensor([0.7071, 2.0000])
    """
    return _unit_variance(exponents) ** (-exponents / 2)


class GeneralisedNormal(Distribution):
    """p-generalised normal distribution of single numbers.

    Args:
        exponent: Exponent p.
        scale: Scale s (default 2).
        validate_args: As in torch.

    Notes:
        `rsample` is differentiable in both parameters, `cdf` in neither.

    Example:
        >>> GeneralisedNormal(torch.tensor([1.0, 2.0])).log_prob(torch.tensor(0.0))
        tensor([-1.3863, -0.9189])
    """

    arg_constraints = {  # noqa: RUF012 (torch has it as a mutable attribute of the class)
        "exponent": constraints.positive,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        exponent: float | Tensor,
        scale: float | Tensor = STANDARD,
        validate_args: bool | None = None,
    ) -> None:
        self.exponent, self.scale = broadcast_all(exponent, scale)
        super().__init__(self.exponent.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "GeneralisedNormal":
        new = self._get_checked_instance(GeneralisedNormal, _instance)
        new.exponent = self.exponent.expand(batch_shape)
        new.scale = self.scale.expand(batch_shape)
        Distribution.__init__(new, torch.Size(batch_shape), validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Tensor:
        return torch.zeros_like(self.exponent)

    @property
    def mode(self) -> Tensor:
        return self.mean

    @property
    def variance(self) -> Tensor:
        return self.scale ** (2 / self.exponent) * _unit_variance(self.exponent)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _log_each(value, self.exponent, self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = torch.special.gammainc(
            1 / self.exponent, value.abs() ** self.exponent / self.scale
        )
        return 0.5 + 0.5 * value.sign() * inside

    def entropy(self) -> Tensor:
        return 1 / self.exponent - _log_constant(self.exponent, self.scale)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        p = self.exponent.expand(torch.Size(sample_shape) + self.batch_shape)
        size = ((log_gammas(1 / p) + self.scale.log()) / p).exp()
        return (2 * torch.randint_like(size, 2) - 1) * size


def _log_each(z: Tensor, p: Tensor, scale: float | Tensor) -> Tensor:
    """Compute the log-density of every number."""
    return _log_constant(p, scale) - (p * log_size(z)).exp() / scale


def _log_constant(p: Tensor, scale: float | Tensor) -> Tensor:
    """Compute the log-density at 0."""
    return p.log() - math.log(2) - (1 / p).lgamma() - log_of(scale) / p


def _unit_variance(p: Tensor) -> Tensor:
    """Compute E z² for scale 1."""
    return ((3 / p).lgamma() - (1 / p).lgamma()).exp()
