"""ISA-VAE: a VAE with a prior of independent subspaces."""

from unweave.papers.isa_vae import scores
from unweave.papers.isa_vae.theory import vi_bias_results
from unweave.papers.recipe import recipes_of

__all__ = ["RECIPES"]

RECIPES = recipes_of(__name__, scores, vi_bias_results)
