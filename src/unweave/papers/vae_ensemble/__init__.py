"""VAE ensembles: plain VAEs with linear maps between their codes."""

from unweave.papers.recipe import recipes_of
from unweave.papers.vae_ensemble import latents, maps, scores

__all__ = ["RECIPES"]

RECIPES = recipes_of(__name__, latents, maps, scores)
