"""Computations for Lp-nested distributions, node by node; `lp_nested` has the equations.

Shapes: n latents, l children, N exponents and K branches of a node with everything below it. Axes
before the last are those of models and codes; axes of exponents broadcast with those of codes.
Equal adjacent children share an additional axis, so that they are computed together.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.priors.layouts import Tree

__all__ = [
    "child_norms",
    "gamma_shapes",
    "last_axis",
    "leaf_norms",
    "log_angles",
    "log_constant",
    "log_gamma_ratio",
    "log_moments",
    "log_of",
    "log_size",
    "node_norm",
    "power",
    "sizes",
]

FLOOR = 1e-6
"""Lower limit of |z|."""


def last_axis(scale: float | Tensor) -> float | Tensor:
    """Add an axis for codes or latents to a scale of models."""
    return scale[..., None] if isinstance(scale, Tensor) else scale


def log_of(scale: float | Tensor) -> float | Tensor:
    """Return the log of a scale; tensors are not checked, which would synchronise the device."""
    if isinstance(scale, Tensor):
        return scale.log()
    if not 0 < scale < math.inf:
        raise UnweaveError(
            f"scale must be positive and finite, got {scale!r}",
            subject="scale",
            value=scale,
        )
    return math.log(scale)


def log_size(z: Tensor) -> Tensor:
    """Compute log |z|, with the floor."""
    return 0.5 * (z.square() + FLOOR**2).log()


def leaf_norms(z: Tensor, exponents: Tensor) -> Tensor:
    """Compute log v of all latents, with all axes of z and exponents before the last."""
    axes = torch.broadcast_shapes(z.shape[:-1], exponents.shape[:-1])
    return log_size(z).expand(*axes, -1)


def node_norm(tree: Tree, logs: Tensor, exponents: Tensor) -> Tensor:
    """Compute log v of a node, `[...]`, from log |z| `[..., n]` and exponents `[..., N]`."""
    p = exponents[..., :1]
    return (p * child_norms(tree, logs, exponents)).logsumexp(-1) / p.squeeze(-1)


def child_norms(tree: Tree, logs: Tensor, exponents: Tensor) -> Tensor:
    """Compute log v of all children, `[..., l]`, equal children in one reduction."""
    below = zip(
        tree.runs, _split(tree, logs, "latents"), _exponents_below(tree, exponents), strict=True
    )
    norms = [
        own.squeeze(-1) if run.tree is None else node_norm(run.tree, own, p)
        for run, own, p in below
    ]
    return norms[0] if len(norms) == 1 else torch.cat(norms, -1)


def power(tree: Tree, z: Tensor, exponents: Tensor) -> Tensor:
    """Compute f(z)^p₀ = Σ_k v_k^p₀, `[...]`, from z `[..., d]` and exponents `[..., N]`."""
    norms = child_norms(tree, leaf_norms(z, exponents), exponents)
    return (exponents[..., :1] * norms).exp().sum(-1)


def log_constant(tree: Tree, exponents: Tensor, scale: float | Tensor) -> Tensor:
    """Compute the log-density at 0, `[*S]`."""
    d, p = tree.num_latents, exponents[..., 0]
    radial = p.log() - (d / p).lgamma() - d / p * log_of(scale)
    return radial - d * math.log(2) - log_angles(tree, exponents)


def log_angles(tree: Tree, exponents: Tensor) -> Tensor:
    """Compute log Π_i p_i^-(l_i - 1) Π_k Γ(n_ik / p_i) / Γ(n_i / p_i), `[*S]`."""
    p = exponents[..., 0]
    total = -(tree.num_children - 1) * p.log() - (tree.num_latents / p).lgamma()
    for run, below in zip(tree.runs, _exponents_below(tree, exponents), strict=True):
        total = total + run.count * (run.num_latents / p).lgamma()
        if run.tree is not None:
            total = total + log_angles(run.tree, below).sum(-1)
    return total


def log_moments(tree: Tree, exponents: Tensor) -> Tensor:
    """Compute log E (z_j / v)² of all latents below a node with norm v, `[..., n]`."""
    p = exponents[..., 0]
    moments = []
    for run, below in zip(tree.runs, _exponents_below(tree, exponents), strict=True):
        share = log_gamma_ratio(run.num_latents, p) - log_gamma_ratio(tree.num_latents, p)
        own = share[..., None, None].expand(*share.shape, run.count, run.num_latents)
        if run.tree is not None:
            own = own + log_moments(run.tree, below)
        moments.append(own.flatten(-2))
    return torch.cat(moments, -1)


def log_gamma_ratio(n: int, p: Tensor) -> Tensor:
    """Compute log Γ((n + 2) / p) / Γ(n / p)."""
    return ((n + 2) / p).lgamma() - (n / p).lgamma()


def gamma_shapes(tree: Tree, exponents: Tensor) -> Tensor:
    """Compute n_ik / p_i of all children of all nodes, in the order of `_spread`, `[..., K]`."""
    p = exponents[..., :1]
    shapes = [run.num_latents / p.expand(*p.shape[:-1], run.count) for run in tree.runs]
    for run, below in zip(tree.runs, _exponents_below(tree, exponents), strict=True):
        if run.tree is not None:
            shapes.append(gamma_shapes(run.tree, below).flatten(-2))
    return torch.cat(shapes, -1)


def sizes(tree: Tree, gammas: Tensor, exponents: Tensor, scale: float | Tensor) -> Tensor:
    """Compute |z| `[..., d]` from log-gammas `[..., K]`; exponents and scale `[...]` broadcast."""
    own = gammas[..., : tree.num_children]
    norms = (own + last_axis(log_of(scale))) / exponents[..., :1]
    return _spread(tree, norms, gammas, exponents).exp()


def _spread(tree: Tree, norms: Tensor, gammas: Tensor, exponents: Tensor) -> Tensor:
    """Compute log |z| below a node, `[..., n]`, from log v of its children, `[..., l]`."""
    parts = zip(
        tree.runs,
        norms.split([run.count for run in tree.runs], -1),
        _split(tree, gammas[..., tree.num_children :], "branches"),
        _exponents_below(tree, exponents),
        strict=True,
    )
    logs = []
    for run, norm, gamma, p in parts:
        if run.tree is None:
            logs.append(norm)
            continue
        own = gamma[..., : run.tree.num_children]
        shares = (own - own.logsumexp(-1, keepdim=True)) / p[..., :1]
        logs.append(_spread(run.tree, norm[..., None] + shares, gamma, p).flatten(-2))
    return torch.cat(logs, -1)


def _exponents_below(tree: Tree, exponents: Tensor) -> list[Tensor]:
    """Return the exponents of each run of children, `[..., count, N]`."""
    return _split(tree, exponents[..., 1:], "exponents")


def _split(
    tree: Tree, values: Tensor, what: Literal["latents", "exponents", "branches"]
) -> list[Tensor]:
    """Return the part of the last axis of each run of children, `[..., count, width]`."""
    widths = [getattr(run, f"num_{what}") for run in tree.runs]
    parts = values.split([run.count * w for run, w in zip(tree.runs, widths, strict=True)], -1)
    return [
        part.unflatten(-1, (run.count, width))
        for run, part, width in zip(tree.runs, parts, widths, strict=True)
    ]
