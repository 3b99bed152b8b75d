"""Lp-nested symmetric distributions: norms of norms, down a tree of latents.

Shapes: M models, B codes per model, d latents, N nodes that are no leaves. `[*S]` stands for
`[M]`, for nothing where there is one model, or for any axes that exponents have before their last.

    v_j = |z_j| for a latent,    v_i = (Σ_k v_ik^p_i)^(1/p_i) for a node,    f(z) = v_0

    p(z) = ψ(f(z)) / S_f(f(z)),    S_f(R) = R^(d-1) S_f(1)

    S_f(1) = 2^d Π_i p_i^-(l_i - 1) Π_k Γ(n_ik / p_i) / Γ(n_i / p_i)

    ψ(v) = p₀ v^(d-1) exp(-v^p₀ / s) / (Γ(d / p₀) s^(d/p₀))

Node i has the exponent p_i, l_i children k, n_i latents below it and n_ik below child k; node 0 is
the root. With this ψ, what is below one child of the root is independent of what is below another.
Trees of depth two are independent subspace analysis (ISA), the prior of the ISA-VAE:

    log p(z) = Σ_i log p₀ - (n_i/p₀) log s - log Γ(n_i/p₀) - n_i log 2 + (n_i - 1) log p_i
               - n_i log Γ(1/p_i) + log Γ(n_i/p_i) - v_i^p₀ / s

Scale: where all exponents are 2 this is N(0, (s/2) I), so the default s = 2 is the standard
normal. The authors' code has s = 1; `unit_scale` makes the variance 1 at other exponents.

Near zero, and at it: |z_j| is taken as √(z_j² + 10⁻¹²), and norms are computed from its logarithm.
So the density and its gradients are finite for all exponents. At z_j = 0 the derivative by z_j is
0, as symmetry wants. With exponents p < 1 the true density has a cusp there, whose derivative is
infinite; here it grows to about p 10^(6(1-p)) / s at |z_j| = 10⁻⁶ and then falls to 0. Where f^p₀
exceeds the largest float (with float32 and p₀ = 20, beyond f = 80) the log-density is -∞.

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
from unweave.priors.trees import Layout, Tree, tree_of
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
"""The scale at which exponents of 2 are the standard normal."""


def log_density(
    z: Tensor, exponents: Tensor, layout: Layout, scale: float | Tensor = STANDARD
) -> Tensor:
    """log p(z), in nats.

    It reads nothing back from the device, and may be part of a CUDA graph.

    Args:
        z: Codes `[*S, B, d]`.
        exponents: p₀ and those of all other nodes, `[*S, N]`, in the order that `Tree` says.
        layout: Such as `"5x4"`; `tree_of` says what can be written.
        scale: s, a number or `[*S]`.

    Returns:
        `[*S, B]`, differentiable by z, exponents and scale.

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
    """log p(z) of a fleet whose models have layouts of their own, `[M, B]`.

    Models of equal layout are computed together. On a GPU the first call for a fleet copies a few
    numbers to the device; later ones may be part of a CUDA graph.

    Args:
        z: Codes `[M, B, d]`.
        exponents: `[M, N]`; models with fewer exponents than N have them at the beginning.
        layouts: M of them.
        scale: s, a number or `[M]`.
    """
    trees = tuple(tree_of(layout) for layout in layouts)
    if not len(trees) == len(z) == len(exponents):
        raise UnweaveError(
            f"there must be a layout, codes and exponents for every model, but got {len(trees)}, "
            f"{len(z)} and {len(exponents)}"
        )
    models, back = _models_by_tree(trees, z.device)
    parts = []
    for tree, chosen in models.items():
        own = exponents.index_select(0, chosen)[:, : tree.num_exponents]
        own_scale = scale.index_select(0, chosen) if isinstance(scale, Tensor) else scale
        parts.append(log_density(z.index_select(0, chosen), own, tree, own_scale))
    return torch.cat(parts).index_select(0, back)


def log_norm(z: Tensor, exponents: Tensor, layout: Layout) -> Tensor:
    """log f(z), the logarithm of the Lp-nested norm, `[*S, B]`.

    Args:
        z: Codes `[*S, B, d]`.
        exponents: `[*S, N]`
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
    """log S_f(1), the logarithm of the surface of the unit ball of f, `[*S]`.

    Args:
        exponents: `[*S, N]`
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
    """Exact samples, which depend on neither device, fleet nor how many are drawn.

    From the root downwards: v_k^p₀ / s of its children are gamma-distributed with the shapes
    n_k / p₀, independently; v_ik^p_i / v_i^p_i of the children of any other node are
    Dirichlet-distributed with n_ik / p_i; signs are fair.

    Args:
        stream: Over seeds `[*S]`.
        items: How many.
        exponents: `[*S, N]`
        layout: As for `log_density`.
        scale: s, a number or `[*S]`.

    Returns:
        `[*S, items, d]`

    Notes:
        The paper's Algorithm 1 draws a point in the ball, projects it to the sphere and then draws
        a radius from ψ: the same law by a longer way.

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
    """E z_j² of every latent, `[*S, d]`.

        E z_j² = s^(2/p₀) Γ((d+2)/p₀) / Γ(d/p₀) Π_i Γ((n_ik + 2)/p_i) Γ(n_i/p_i) /
                 [Γ(n_ik/p_i) Γ((n_i + 2)/p_i)]

    over the nodes i, with their child k, on the way from the root to the latent.

    Args:
        exponents: `[*S, N]`
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
    """The scale s at which the variance of latents is 1 in the mean, `[*S]`.

    With subspaces of equal size and exponents it is then 1 for every latent.

    Args:
        exponents: `[*S, N]`
        layout: As for `log_density`.

    Example:
        >>> unit_scale(torch.tensor([2.1, 2.2]), "4")
        tensor(2.0931)
    """
    return variance(exponents, layout, 1.0).mean(-1) ** (-exponents[..., 0] / 2)


class LpNested(Distribution):
    """An Lp-nested symmetric distribution, as `torch.distributions` has them.

    Args:
        layout: As for `log_density`.
        exponents: `[*batch_shape, N]`
        scale: s, `[*batch_shape]` or what broadcasts with it.
        validate_args: As in torch.

    Notes:
        `rsample` is differentiable by exponents and scale.

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
        """d / p₀ less the logarithm of the density at 0: f^p₀ / s has the mean d / p₀."""
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
            f"the layout {tree} needs exponents [..., {tree.num_exponents}], but got "
            f"{list(exponents.shape)}"
        )
    if z is not None and z.shape[-1:] != (tree.num_latents,):
        raise UnweaveError(
            f"the layout {tree} is one of {tree.num_latents} latents, but got codes "
            f"{list(z.shape)}"
        )


@cache  # without a limit, since a CUDA graph may still read what a limit would let go
@torch.inference_mode(mode=False)  # so that later calls can be differentiated
def _models_by_tree(
    trees: tuple[Tree, ...], device: torch.device
) -> tuple[dict[Tree, Tensor], Tensor]:
    """The models of each tree, and where each model is when these are put behind each other."""
    models = {
        tree: torch.tensor([m for m, own in enumerate(trees) if own == tree], device=device)
        for tree in dict.fromkeys(trees)
    }
    return models, torch.cat(list(models.values())).argsort()
