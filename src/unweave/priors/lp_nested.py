"""Lp-nested symmetric distributions: norms of norms along a tree of latents.

Shapes: M models, B codes per model, d latents, N inner nodes. `[*S]` stands for `[M]`, for no axis
with a single model, or in general for the axes of the exponents before the last.

    v_j = |z_j| for a latent,    v_i = (Σ_k v_ik^p_i)^(1/p_i) for a node,    f(z) = v_0

    p(z) = ψ(f(z)) / S_f(f(z)),    S_f(R) = R^(d-1) S_f(1)

    S_f(1) = 2^d Π_i p_i^-(l_i - 1) Π_k Γ(n_ik / p_i) / Γ(n_i / p_i)

    ψ(v) = p₀ v^(d-1) exp(-v^p₀ / s) / (Γ(d / p₀) s^(d/p₀))

Node i has the exponent p_i, l_i children k, n_i latents below it and n_ik below child k; node 0 is
the root. With this ψ, latents below different children of the root are independent. Trees of depth
two are independent subspace analysis (ISA), the prior of the ISA-VAE:

    log p(z) = Σ_i log p₀ - (n_i/p₀) log s - log Γ(n_i/p₀) - n_i log 2 + (n_i - 1) log p_i
               - n_i log Γ(1/p_i) + log Γ(n_i/p_i) - v_i^p₀ / s

Scale: if all exponents are 2, this is N(0, (s/2) I), so the default s = 2 gives the standard
normal. The code of the authors uses s = 1. `unit_scale` gives variance 1 for other exponents.

Near zero: |z_j| is computed as √(z_j² + 10⁻¹²), and norms from its logarithm, so that the density
and its gradients are finite for all exponents. At z_j = 0 the derivative in z_j is 0, as symmetry
requires. With exponents p < 1 the exact density has a cusp there with an infinite derivative; here
the derivative grows to about p 10^(6(1-p)) / s at |z_j| = 10⁻⁶ and then falls to 0. If f^p₀
exceeds the largest float (in float32 with p₀ = 20, for f > 80), the log-density is -∞.

References:
    Stühmer, Turner and Nowozin, Independent Subspace Analysis for Unsupervised Learning of
    Disentangled Representations, arXiv:1909.05063; Sinz and Bethge, Lp-nested symmetric
    distributions, JMLR 11, 2010.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from unweave.errors import UnweaveError
from unweave.priors.gammas import log_gammas, log_gammas_of_stream
from unweave.priors.layouts import Layout, Tree, tree_of
from unweave.priors.nodes import (
    gamma_shapes,
    last_axis,
    leaf_norms,
    log_angles,
    log_constant,
    log_gamma_ratio,
    log_moments,
    log_of,
    node_norm,
    power,
    sizes,
)
from unweave.random import Stream

__all__ = [
    "STANDARD",
    "LpNested",
    "log_density",
    "log_norm",
    "log_surface",
    "mixed_log_density",
    "sample",
    "unit_scale",
    "variance",
]

STANDARD = 2.0
"""Scale at which exponents of 2 give the standard normal distribution."""


def log_density(
    z: Tensor, exponents: Tensor, layout: Layout, scale: float | Tensor = STANDARD
) -> Tensor:
    """Compute log p(z), in nats.

    It needs no synchronisation with the device and can be part of a CUDA graph.

    Args:
        z: Codes `[*S, B, d]`.
        exponents: p₀ and the exponents of all other nodes, `[*S, N]`, in the order of `Tree`.
        layout: Layout such as `"5x4"`; see `tree_of`.
        scale: s, a number or `[*S]`.

    Returns:
        Log-densities `[*S, B]`, differentiable in z, exponents and scale.

    Example:
        >>> z, exponents = torch.zeros(1, 20), torch.tensor([2.1, 2.2, 2.2, 2.2, 2.2, 2.2])
        >>> log_density(z, exponents, "5x4")
        tensor([-18.4102])
        >>> log_density(z, torch.full((6,), 2.0), "5x4")  # -10 log 2π
        tensor([-18.3788])
    """
    tree = tree_of(layout)
    _check(tree, exponents, z)
    constant = log_constant(tree, exponents, scale)[..., None]
    return constant - power(tree, z, exponents[..., None, :]) / last_axis(scale)


def mixed_log_density(
    z: Tensor, exponents: Tensor, layouts: Sequence[Layout], scale: float | Tensor = STANDARD
) -> Tensor:
    """Compute log p(z) for a fleet whose models have different layouts, `[M, B]`.

    Models with the same layout are computed together. On a GPU, the first call for a fleet copies
    a few numbers to the device; later calls can be part of a CUDA graph.

    Args:
        z: Codes `[M, B, d]`.
        exponents: Exponents `[M, N]`; models with fewer than N use the first ones.
        layouts: Layouts of the M models.
        scale: s, a number or `[M]`.
    """
    trees = tuple(tree_of(layout) for layout in layouts)
    if not len(trees) == len(z) == len(exponents):
        raise UnweaveError(
            "layouts, codes and exponents must have one entry per model, got "
            f"{len(trees)}, {len(z)} and {len(exponents)}",
            subject="layouts",
            value=len(trees),
        )
    models, back = _models_by_tree(trees, z.device)
    parts = []
    for tree, chosen in models.items():
        own = exponents.index_select(0, chosen)[:, : tree.num_exponents]
        own_scale = scale.index_select(0, chosen) if isinstance(scale, Tensor) else scale
        parts.append(log_density(z.index_select(0, chosen), own, tree, own_scale))
    return torch.cat(parts).index_select(0, back)


def log_norm(z: Tensor, exponents: Tensor, layout: Layout) -> Tensor:
    """Compute log f(z), the logarithm of the Lp-nested norm, `[*S, B]`.

    Args:
        z: Codes `[*S, B, d]`.
        exponents: Exponents `[*S, N]`.
        layout: As for `log_density`.

    Example:
        >>> log_norm(torch.tensor([[1.0, 3.0, 4.0]]), torch.tensor([1.0, 2.0]), "1,2").exp()
        tensor([6.])
    """
    tree = tree_of(layout)
    _check(tree, exponents, z)
    exponents = exponents[..., None, :]
    return node_norm(tree, leaf_norms(z, exponents), exponents)


def log_surface(exponents: Tensor, layout: Layout) -> Tensor:
    """Compute log S_f(1), the logarithm of the surface of the unit ball of f, `[*S]`.

    Args:
        exponents: Exponents `[*S, N]`.
        layout: As for `log_density`.

    Example:
        >>> log_surface(torch.tensor([2.0, 2.0]), "1,2").exp() / math.pi
        tensor(4.0000)
    """
    tree = tree_of(layout)
    _check(tree, exponents)
    return tree.num_latents * math.log(2) + log_angles(tree, exponents)


def sample(
    stream: Stream,
    items: int,
    exponents: Tensor,
    layout: Layout,
    scale: float | Tensor = STANDARD,
) -> Tensor:
    """Draw exact samples, independent of device, fleet and number of samples.

    From the root downwards: v_k^p₀ / s of its children are independent and gamma-distributed with
    shapes n_k / p₀; v_ik^p_i / v_i^p_i of the children of any other node are Dirichlet-distributed
    with n_ik / p_i; signs are random.

    Args:
        stream: Stream over seeds `[*S]`.
        items: Number of samples.
        exponents: Exponents `[*S, N]`.
        layout: As for `log_density`.
        scale: s, a number or `[*S]`.

    Returns:
        Samples `[*S, items, d]`.

    Notes:
        Algorithm 1 of the paper samples a point in the ball, projects it to the sphere and then
        samples a radius from ψ. This gives the same distribution in more steps.

    Example:
        >>> sample(Stream(0, "samples"), 2, torch.tensor([2.1, 2.2]), "3")
        tensor([[ 0.4167, -0.8902, -1.3112],
                [ 0.7003, -1.1587,  1.0352]])
    """
    tree = tree_of(layout)
    _check(tree, exponents)
    gammas = log_gammas_of_stream(stream, items, gamma_shapes(tree, exponents))
    signs = replace(stream, purpose=f"{stream.purpose}, signs").integers(
        2, items, tree.num_latents
    )
    return (2 * signs - 1) * sizes(tree, gammas, exponents[..., None, :], last_axis(scale))


def variance(exponents: Tensor, layout: Layout, scale: float | Tensor = STANDARD) -> Tensor:
    """Compute the variance E z_j² of every latent, `[*S, d]`.

        E z_j² = s^(2/p₀) Γ((d+2)/p₀) / Γ(d/p₀) Π_i Γ((n_ik + 2)/p_i) Γ(n_i/p_i) /
                 [Γ(n_ik/p_i) Γ((n_i + 2)/p_i)]

    over the nodes i, with their child k, on the path from the root to the latent.

    Args:
        exponents: Exponents `[*S, N]`.
        layout: As for `log_density`.
        scale: s, a number or `[*S]`.

    Example:
        >>> variance(torch.tensor([2.1, 2.2, 1.9]), "4,3", scale=1.0)
        tensor([0.4949, 0.4949, 0.4949, 0.4949, 0.4456, 0.4456, 0.4456])
    """
    tree = tree_of(layout)
    _check(tree, exponents)
    root = exponents[..., 0]
    radius = 2 / root * log_of(scale) + log_gamma_ratio(tree.num_latents, root)
    return (radius[..., None] + log_moments(tree, exponents)).exp()


def unit_scale(exponents: Tensor, layout: Layout) -> Tensor:
    """Return the scale s at which the mean variance of the latents is 1, `[*S]`.

    If all subspaces have the same size and exponent, every latent then has variance 1.

    Args:
        exponents: Exponents `[*S, N]`.
        layout: As for `log_density`.

    Example:
        >>> unit_scale(torch.tensor([2.1, 2.2]), "4")
        tensor(2.0931)
    """
    return variance(exponents, layout, 1.0).mean(-1) ** (-exponents[..., 0] / 2)


class LpNested(Distribution):
    """Lp-nested symmetric distribution with the interface of `torch.distributions`.

    Args:
        layout: As for `log_density`.
        exponents: Exponents `[*batch_shape, N]`.
        scale: s, `[*batch_shape]` or a shape that broadcasts with it.
        validate_args: As in torch.

    Notes:
        `rsample` is differentiable in exponents and scale.

    Example:
        >>> prior = LpNested("5x4", torch.tensor([2.1, 2.2, 2.2, 2.2, 2.2, 2.2]))
        >>> prior.event_shape, prior.batch_shape
        (torch.Size([20]), torch.Size([]))
        >>> prior.entropy()
        tensor(27.9340)
    """

    arg_constraints = {  # noqa: RUF012 (torch has it as a mutable attribute of the class)
        "exponents": constraints.independent(constraints.positive, 1),
        "scale": constraints.positive,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        layout: Layout,
        exponents: Tensor,
        scale: float | Tensor = STANDARD,
        validate_args: bool | None = None,
    ) -> None:
        self.tree = tree_of(layout)
        _check(self.tree, exponents)
        scale = torch.as_tensor(scale, dtype=exponents.dtype, device=exponents.device)
        batch = torch.broadcast_shapes(exponents.shape[:-1], scale.shape)
        self.exponents = exponents.expand(*batch, -1)
        self.scale = scale.expand(batch)
        event = torch.Size([self.tree.num_latents])
        super().__init__(batch, event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "LpNested":
        new = self._get_checked_instance(LpNested, _instance)
        new.tree = self.tree
        new.exponents = self.exponents.expand(*batch_shape, -1)
        new.scale = self.scale.expand(batch_shape)
        Distribution.__init__(new, torch.Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Tensor:
        return self.exponents.new_zeros(self.batch_shape + self.event_shape)

    @property
    def mode(self) -> Tensor:
        return self.mean

    @property
    def variance(self) -> Tensor:
        return variance(self.exponents, self.tree, self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        constant = log_constant(self.tree, self.exponents, self.scale)
        return constant - power(self.tree, value, self.exponents) / self.scale

    def entropy(self) -> Tensor:
        """Return d / p₀ minus the log-density at 0, because f^p₀ / s has mean d / p₀."""
        constant = log_constant(self.tree, self.exponents, self.scale)
        return self.tree.num_latents / self.exponents[..., 0] - constant

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = torch.Size(sample_shape) + self.batch_shape
        gammas = log_gammas(gamma_shapes(self.tree, self.exponents).expand(*shape, -1))
        size = sizes(self.tree, gammas, self.exponents, self.scale)
        return (2 * torch.randint_like(size, 2) - 1) * size


def _check(tree: Tree, exponents: Tensor, z: Tensor | None = None) -> None:
    if exponents.shape[-1:] != (tree.num_exponents,):
        raise UnweaveError(
            f"exponents must have shape [..., {tree.num_exponents}] for layout {tree}, got "
            f"{list(exponents.shape)}",
            subject="exponents",
            value=list(exponents.shape),
        )
    if z is not None and z.shape[-1:] != (tree.num_latents,):
        raise UnweaveError(
            f"codes must have {tree.num_latents} latents for layout {tree}, got shape "
            f"{list(z.shape)}",
            subject="z",
            value=list(z.shape),
        )


@cache  # without a limit, because a CUDA graph may still read evicted entries
@torch.inference_mode(mode=False)  # so that later calls can be differentiated
def _models_by_tree(
    trees: tuple[Tree, ...], device: torch.device
) -> tuple[dict[Tree, Tensor], Tensor]:
    """Return the models of each tree, and the position of each model after concatenation."""
    models = {
        tree: torch.tensor([m for m, own in enumerate(trees) if own == tree], device=device)
        for tree in dict.fromkeys(trees)
    }
    return models, torch.cat(list(models.values())).argsort()
