"""Prior distributions of latents: log-densities, samples and subspace layouts."""

from unweave.priors.generalised_normal import GeneralisedNormal
from unweave.priors.layouts import Tree, tree_of
from unweave.priors.lp_nested import LpNested

__all__ = ["GeneralisedNormal", "LpNested", "Tree", "tree_of"]
