"""ISA-VAE and ISA-TCVAE: a prior of independent subspaces, which no rotation leaves as it is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.methods.base import MODEL, Losses, Nets, NetworkGroups, PerModel, Strength
from unweave.methods.batch import Batch
from unweave.methods.beta_tc_vae import decompose
from unweave.methods.mixins import CustomPrior, Diagnostics
from unweave.methods.posterior import Posterior
from unweave.methods.settings import check_choice
from unweave.methods.vae import VAE, Elbo
from unweave.nets.adam import Adam
from unweave.nets.layers import Offsets
from unweave.nets.network import Network
from unweave.priors.lp_nested import log_density, mixed_log_density, sample, unit_scale
from unweave.priors.trees import Tree, tree_of
from unweave.random import Stream

__all__ = ["ISATCVAE", "ISAVAE"]

PRIOR, EXPONENTS = "prior", "exponents"
STABLE = (0.5, 20.0)
"""Exponents for which densities and their gradients are computed well."""
LEARNED = (1.05, 10.0)
"""Where learned exponents are kept."""
SUBSPACE = 4
"""Latents of a subspace, at most, where no layout is given; as published."""
SCALES = {"unit": None, "reference": 1.0, "standard": 2.0}


@dataclass(frozen=True, kw_only=True)
class ISAVAE(CustomPrior, Diagnostics, VAE):
    """ISA-VAE: the β-VAE with an Lp-nested prior.

        L = E_q[-log p(x|z) + β (log q(z|x) - log p(z))]

        log p(z) = Σ_i c_i - v_i^p₀ / s,    v_i = (Σ_j |z_j|^p_i)^(1/p_i) over the latents j of
        subspace i

    with one code z per image; the KL divergence has no closed form. `unweave.priors.lp_nested` has
    the constants. Subspaces are independent of each other; inside one, latents are independent
    only where p_i = p₀.

    Args:
        beta: β; the paper takes 1 to 6, and 0.5 to 5 with learned exponents.
        p0: p₀, of the root.
        p: p_i of all subspaces, or where they begin if they are learned; the paper takes 2.2 on
            dSprites, 1.9 on faces, and 2.0 to begin with.
        layout: The sizes of subspaces, `"5x4"`, or a tree, `"2x(1,2),4"`; in a fleet each model
            may have its own. Without it, as few subspaces of at most four latents as there can be:
            `"5x4"` for 20 latents and `"4,3,3"` for 10, as published.
        learned: Whether each p_i is learned, by an Adam of its own with the learning rate 5e-4;
            p₀ stays. They are kept between 1.05 and 10.
        scale: s: `"unit"`, so that the variance of latents is 1 in the mean, at the exponents
            given; `"reference"`, 1, as the authors' code has it; or `"standard"`, 2, with which
            exponents of 2 are the standard normal.
        exact_entropy: Whether E log q(z|x) is computed and not sampled, with less noise.

    Notes:
        The authors' code learns p₀ too, and stops where an exponent makes the loss infinite. The
        paper does not say what the scale is.

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
        self._check_exponent("p0", *STABLE)
        self._check_exponent("p", *(LEARNED if self.learned else STABLE))
        if self.layout:
            tree_of(self.layout)
        check_choice(self, "scale", SCALES)

    def _check_exponent(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        if not least <= value <= most:
            where = " where it is learned" if (least, most) == LEARNED else ""
            raise UnweaveError(
                f"{self.name}'s {name} must be between {least:g} and {most:g}{where}, but got "
                f"{value!r}"
            )

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
            groups[PRIOR] = -self.weight_of_prior() * log_p
        return Losses(groups, {"reconstruction": elbo.reconstruction, "kl": kl})

    def regularizer(self, elbo: Elbo, batch: Batch) -> Tensor:  # noqa: ARG002
        return self.beta * elbo.kl

    def weight_of_prior(self) -> Any:
        """What -log p(z) is multiplied with in the loss."""
        return self.beta

    def log_posterior(self, posterior: Posterior, z: Tensor) -> Tensor:
        """log q(z|x), or its mean over z, `[M, B]`."""
        if self.exact_entropy:
            return -0.5 * (1 + math.log(2 * math.pi) + posterior.logvar).sum(-1)
        return posterior.log_density(z).sum(-1)

    def exponents(self, nets: Nets, z: Tensor) -> Tensor:
        """p₀ and as many p_i as there may be, `[M, 1 + d]`."""
        p0, p = self._given_exponents(z)
        p = p.expand(-1, z.shape[-1])
        if self.learned:
            p = kept_within(nets.apply[EXPONENTS](p[:, None]).squeeze(1).to(z.dtype))
        return torch.cat([p0, p], 1)

    def log_prior(self, z: Tensor, exponents: Tensor) -> Tensor:
        """log p(z), `[M, B]`."""
        layouts = self.layout if isinstance(self.layout, tuple) else (self.layout,) * len(z)
        trees = [tree_for(layout, z.shape[-1]) for layout in layouts]
        scale = self.scales(trees, z)
        if all(tree == trees[0] for tree in trees):
            return log_density(z, exponents[:, : trees[0].num_exponents], trees[0], scale)
        return mixed_log_density(z, exponents, trees, scale)

    def scales(self, trees: Sequence[Tree], like: Tensor) -> Tensor | float:
        """s, a number or `[M]`; that of unit variance is of the exponents that were given."""
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
        # As many as any layout has, since those of a fleet may differ.
        below_root = latents - 1 if self.learned else 0
        return tuple(f"p_{node}" for node in range(1, below_root + 1))

    def diagnostics(
        self,
        means: np.ndarray,
        logvars: np.ndarray,  # noqa: ARG002
        parameters: Mapping[str, Tensor],
    ) -> Sequence[float]:
        """The learned exponents p_1, p_2, …; NaN beyond those of the layout."""
        latents = means.shape[-1]
        learned = self.prior_exponents(latents, parameters)[1:].tolist()
        return [*learned, *[math.nan] * (len(self.diagnostic_names(latents)) - len(learned))]

    def prior_exponents(self, latents: int, parameters: Mapping[str, Tensor]) -> Tensor:
        """p₀ and all p_i of one trained model, in the order of the nodes of its layout.

        Args:
            latents: d.
            parameters: Those of the model, by network and name.
        """
        nodes = tree_for(self.layout, latents).num_exponents
        p = torch.full((nodes - 1,), float(self.p))
        if self.learned:
            offsets = parameters[f"{EXPONENTS}/0.offset"].reshape(-1)[: nodes - 1].cpu()
            p = kept_within(p + offsets)
        return torch.cat([torch.tensor([float(self.p0)]), p])

    def prior_samples(
        self, stream: Stream, count: int, latents: int, parameters: Mapping[str, Tensor]
    ) -> Tensor:
        tree = tree_for(self.layout, latents)
        scale = self.scales([tree], torch.zeros(1))
        scale = float(scale[0]) if isinstance(scale, Tensor) else scale
        return sample(stream, count, self.prior_exponents(latents, parameters), tree, scale)

    def _given_exponents(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """p₀ and p as they were given, `[M, 1]` each."""
        p0, p = (self.per_latent(name).to(like).expand(len(like), 1) for name in ("p0", "p"))
        return p0, p


@dataclass(frozen=True, kw_only=True)
class ISATCVAE(ISAVAE):
    """ISA-TCVAE: weigh the total correlation alone, under the prior of ISA-VAE.

        L = E_q[-log p(x|z)] + I(x; z) + β TC(z) + E_q[Σ_l log q(z_l) - log p(z)]

    where the three last terms are the KL divergence at β = 1, and the total correlation is
    estimated on the minibatch as in β-TCVAE, with minibatch-weighted sampling.

    Args:
        beta: β.
        p0: See `ISAVAE`, as for all others.
        p: p_i, or where they begin.
        layout: The sizes of subspaces.
        learned: Whether each p_i is learned.
        scale: s.
        exact_entropy: Whether E log q(z|x) is computed and not sampled.

    References:
        Stühmer, Turner & Nowozin, arXiv:1909.05063.
    """

    name = "isa_tc_vae"
    label = "ISA-TCVAE"

    def regularizer(self, elbo: Elbo, batch: Batch) -> Tensor:
        parts = decompose(elbo.posterior, elbo.z, "weighted", batch.data_size)
        return elbo.kl + (self.beta - 1) * parts.total_correlation

    def weight_of_prior(self) -> Any:
        return 1.0


def tree_for(layout: str, latents: int) -> Tree:
    """The tree of a layout, or, where it is empty, the one of as many subspaces as are needed.

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
            f"the layout {layout} is one of {tree.num_latents} latents, but models have {latents};"
            " give both the same number, or leave the layout out"
        )
    return tree


def kept_within(p: Tensor) -> Tensor:
    """Exponents within `LEARNED`; their gradients are as if they were not, so they can return."""
    return p + (p.clamp(*LEARNED) - p).detach()
