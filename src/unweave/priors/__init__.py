"""Distributions of latents: their log-density, samples from them, and how latents are laid out."""

from unweave.priors.generalised_normal import GeneralisedNormal
from unweave.priors.lp_nested import LpNested
from unweave.priors.trees import Tree, tree_of

__all__ = ["GeneralisedNormal", "LpNested", "Tree", "tree_of"]
