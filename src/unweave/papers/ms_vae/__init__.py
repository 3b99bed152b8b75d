"""MS-VAE: a second stage adds the details that a disentangled first stage blurs."""

from unweave.papers.ms_vae import flow_figures, pendulum_figures, pictures, scores, variants
from unweave.papers.ms_vae.theory import d_separation
from unweave.papers.recipe import recipes_of

__all__ = ["RECIPES"]

RECIPES = recipes_of(
    __name__, flow_figures, pendulum_figures, pictures, scores, variants, d_separation
)
