"""ISA-VAE and ISA-TCVAE: a prior of independent subspaces that is not rotation-invariant."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.methods.base import MODEL, Losses, Nets, NetworkGroups, PerModel, Strength
from unweave.methods.batch import Batch, Posterior
from unweave.methods.beta_tc_vae import decompose
from unweave.methods.mixins import CustomPrior, Diagnostics
from unweave.methods.settings import check_choice, check_range
from unweave.methods.vae import VAE, Elbo
from unweave.nets.adam import Adam
from unweave.nets.layers import Offsets
from unweave.nets.network import Network
from unweave.priors.layouts import Tree, tree_of
from unweave.priors.lp_nested import log_density, mixed_log_density, sample, unit_scale
from unweave.random import Stream

__all__ = ["ISATCVAE", "ISAVAE"]

PRIOR, EXPONENTS = "prior", "exponents"
STABLE = (0.5, 20.0)
"""Range of exponents for which densities and gradients are numerically stable."""
LEARNED = (1.05, 10.0)
"""Range to which learned exponents are clamped."""
SUBSPACE = 4
"""Largest number of latents in a subspace of the default layout, as published."""
SCALES = {"unit": None, "reference": 1.0, "standard": 2.0}


@dataclass(frozen=True, kw_only=True)
class ISAVAE(CustomPrior, Diagnostics, VAE):
    """ISA-VAE: a β-VAE with an Lp-nested prior.

        L = E_q[-log p(x|z) + β (log q(z|x) - log p(z))]

        log p(z) = Σ_i c_i - v_i^p₀ / s,    v_i = (Σ_j |z_j|^p_i)^(1/p_i) over the latents j of
        subspace i

    with one sampled code z per image, since the KL divergence has no closed form. The constants
    are in `unweave.priors.lp_nested`. Subspaces are mutually independent; latents within a
    subspace are independent only if p_i = p₀.

    Args:
        beta: Weight of the KL divergence, β; the paper uses 1 to 6, and 0.5 to 5 with learned
            exponents.
        p0: Exponent of the root, p₀.
        p: Exponent of all subspaces, p_i, or its initial value if exponents are learned; the
            paper uses 2.2 on dSprites, 1.9 on faces, and 2.0 as the initial value.
        layout: Sizes of the subspaces, such as `"5x4"`, or a tree, such as `"2x(1,2),4"`; it may
            differ between the models of a fleet. The default is the smallest number of subspaces
            of at most four latents, as published: `"5x4"` for 20 latents, `"4,3,3"` for 10.
        learned: Whether each p_i is learned, by a separate Adam with learning rate 5e-4, and
            clamped to 1.05 … 10; p₀ is fixed.
        scale: Scale s: `"unit"` gives latents a mean variance of 1 at the given exponents;
            `"reference"` is 1, as in the authors' code; `"standard"` is 2, which gives the
            standard normal for exponents of 2.
        exact_entropy: Whether E log q(z|x) is computed exactly, which reduces noise, rather than
            sampled.

    Notes:
        The authors' code also learns p₀, and stops when an exponent makes the loss infinite. The
        paper does not state the scale.

    References:
        Stühmer, Turner & Nowozin, Independent Subspace Analysis for Unsupervised Learning of
        Disentangled Representations, arXiv:1909.05063.
    """

    name = "isa_vae"
    label = "ISA-VAE"
    standard_noise = False

    beta: Strength = 1.0
    p0: Strength = 2.1
    p: Strength = 2.2
    layout: Annotated[str, PerModel] = ""
    learned: bool = False
    scale: str = "unit"
    exact_entropy: bool = False

    def check(self) -> None:
        check_range(self, "p0", *STABLE)
        if self.learned:
            check_range(self, "p", *LEARNED, where=" if it is learned")
        check_range(self, "p", *STABLE)
        if self.layout:
            tree_of(self.layout)
        check_choice(self, "scale", SCALES)

    def check_latents(self, latents: int) -> None:
        tree_for(self.layout, latents)

    def extra_networks(self, latents: int) -> NetworkGroups:
        return {PRIOR: {EXPONENTS: Network((Offsets(latents),))}} if self.learned else {}

    def extra_optimisers(self) -> Mapping[str, Adam]:
        return {PRIOR: Adam(lr=5e-4)} if self.learned else {}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        posterior = nets.encode(batch.images)
        z, _ = posterior.sample_and_kl(batch.noise("posterior", posterior.mu))
        log_p = self.log_prior(z, self.exponents(nets, z)).mean(-1)
        kl = self.log_posterior(posterior, z).mean(-1) - log_p
        elbo = Elbo(posterior, z, nets.reconstruction(z, batch.images), kl)
        groups = {MODEL: elbo.reconstruction + self.regularizer(elbo, batch)}
        if self.learned:
            groups[PRIOR] = -self.prior_weight() * log_p
        return Losses(groups, {"reconstruction": elbo.reconstruction, "kl": kl})

    def regularizer(self, elbo: Elbo, batch: Batch) -> Tensor:  # noqa: ARG002
        return self.beta * elbo.kl

    def prior_weight(self) -> Any:
        """Return the weight of -log p(z) in the loss."""
        return self.beta

    def log_posterior(self, posterior: Posterior, z: Tensor) -> Tensor:
        """Return log q(z|x), or its mean over z, `[M, B]`."""
        if self.exact_entropy:
            return -0.5 * (1 + math.log(2 * math.pi) + posterior.logvar).sum(-1)
        return posterior.log_density(z).sum(-1)

    def exponents(self, nets: Nets, z: Tensor) -> Tensor:
        """Return p₀ and d values of p_i, the most that any layout uses, `[M, 1 + d]`."""
        p0, p = self._given_exponents(z)
        p = p.expand(-1, z.shape[-1])
        if self.learned:
            p = clamp_learned(nets.apply[EXPONENTS](p[:, None]).squeeze(1).to(z.dtype))
        return torch.cat([p0, p], 1)

    def log_prior(self, z: Tensor, exponents: Tensor) -> Tensor:
        """Return log p(z), `[M, B]`."""
        layouts = self.layout if isinstance(self.layout, tuple) else (self.layout,) * len(z)
        trees = [tree_for(layout, z.shape[-1]) for layout in layouts]
        scale = self.scales(trees, z)
        if all(tree == trees[0] for tree in trees):
            return log_density(z, exponents[:, : trees[0].num_exponents], trees[0], scale)
        return mixed_log_density(z, exponents, trees, scale)

    def scales(self, trees: Sequence[Tree], like: Tensor) -> Tensor | float:
        """Return the scale s, a number or `[M]`; `"unit"` uses the given exponents."""
        known = SCALES[self.scale]
        if known is not None:
            return known
        p0, p = self._given_exponents(like)
        by_tree = {
            tree: unit_scale(torch.cat([p0, p.expand(-1, tree.num_exponents - 1)], 1), tree)
            for tree in dict.fromkeys(trees)
        }
        if len(by_tree) == 1:
            return by_tree[trees[0]]
        return torch.stack([by_tree[tree][m] for m, tree in enumerate(trees)])

    def diagnostic_names(self, latents: int) -> tuple[str, ...]:
        # The most that any layout has, since layouts may differ within a fleet.
        below_root = latents - 1 if self.learned else 0
        return tuple(f"p_{node}" for node in range(1, below_root + 1))

    def diagnostics(
        self,
        means: np.ndarray,
        logvars: np.ndarray,  # noqa: ARG002
        parameters: Mapping[str, Tensor],
    ) -> Sequence[float]:
        """Return the learned exponents p_1, p_2, …; NaN beyond those of the layout."""
        latents = means.shape[-1]
        learned = self.prior_exponents(latents, parameters)[1:].tolist()
        return [*learned, *[math.nan] * (len(self.diagnostic_names(latents)) - len(learned))]

    def prior_exponents(self, latents: int, parameters: Mapping[str, Tensor]) -> Tensor:
        """Return p₀ and all p_i of one trained model, in the order of the nodes of its layout."""
        nodes = tree_for(self.layout, latents).num_exponents
        p = torch.full((nodes - 1,), float(self.p))
        if self.learned:
            offsets = parameters[f"{EXPONENTS}/0.offset"].reshape(-1)[: nodes - 1].cpu()
            p = clamp_learned(p + offsets)
        return torch.cat([torch.tensor([float(self.p0)]), p])

    def prior_samples(
        self, stream: Stream, count: int, latents: int, parameters: Mapping[str, Tensor]
    ) -> Tensor:
        tree = tree_for(self.layout, latents)
        scale = self.scales([tree], torch.zeros(1))
        scale = float(scale[0]) if isinstance(scale, Tensor) else scale
        return sample(stream, count, self.prior_exponents(latents, parameters), tree, scale)

    def _given_exponents(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the given p₀ and p, `[M, 1]` each."""
        p0, p = (self.per_latent(name).to(like).expand(len(like), 1) for name in ("p0", "p"))
        return p0, p


@dataclass(frozen=True, kw_only=True)
class ISATCVAE(ISAVAE):
    """ISA-TCVAE: penalise only the total correlation, with the prior of ISA-VAE.

        L = E_q[-log p(x|z)] + I(x; z) + β TC(z) + E_q[Σ_l log q(z_l) - log p(z)]

    where the last three terms are the KL divergence at β = 1, and the total correlation is
    estimated on the minibatch as in β-TCVAE, with minibatch-weighted sampling.

    Args:
        beta: Weight of the total correlation, β.
        p0: Exponent of the root, p₀; for details of all other settings see `ISAVAE`.
        p: Exponent of all subspaces, p_i, or its initial value.
        layout: Sizes of the subspaces.
        learned: Whether each p_i is learned.
        scale: Scale s.
        exact_entropy: Whether E log q(z|x) is computed exactly rather than sampled.

    References:
        Stühmer, Turner & Nowozin, arXiv:1909.05063.
    """

    name = "isa_tc_vae"
    label = "ISA-TCVAE"

    def regularizer(self, elbo: Elbo, batch: Batch) -> Tensor:
        parts = decompose(elbo.posterior, elbo.z, "weighted", batch.data_size)
        return elbo.kl + (self.beta - 1) * parts.total_correlation

    def prior_weight(self) -> Any:
        return 1.0


def tree_for(layout: str, latents: int) -> Tree:
    """Return the tree of a layout, or the default tree if the layout is empty.

    Example:
        >>> str(tree_for("", 20)), str(tree_for("", 10)), str(tree_for("2x2", 4))
        ('5x4', '4,2x3', '2x2')
    """
    if not layout:
        count = math.ceil(latents / SUBSPACE)
        sizes = [latents // count + (place < latents % count) for place in range(count)]
        return tree_of(",".join(map(str, sizes)))
    tree = tree_of(layout)
    if tree.num_latents != latents:
        raise UnweaveError(
            f"layout {layout} has {tree.num_latents} latents, but models have {latents}; use the "
            "same number for both, or omit the layout",
            subject="layout",
        )
    return tree


def clamp_learned(p: Tensor) -> Tensor:
    """Clamp exponents to `LEARNED`; gradients pass through, so that exponents can move back."""
    return p + (p.clamp(*LEARNED) - p).detach()
