"""Figures 11 to 13: latent traversals; Figures 1 and 5: drawings."""

from functools import partial

from unweave.recipes.frames import claims
from unweave.recipes.recipe import Recipe

__all__ = ["DRAWINGS", "FIGURES_11_13"]

FIGURES_11_13 = Recipe(
    name="vae-ensemble/figures-11-13",
    title="Latent traversals from -3 to 3 on dSprites and CelebA",
    where="Figures 11 to 13",
    claim="Which latents are active depends on the input in an ensemble, and does not in a single "
    "VAE.",
    published=partial(
        claims,
        "the second latent of an ensemble of two is passive for an ellipse",
        "it is active for a heart and for a square",
        "in a single VAE the same latents are active for every input",
        "on CelebA (16 latents) the ensemble's images are sharper",
    ),
    waits_for="the VAE ensemble",
)
DRAWINGS = Recipe(
    name="vae-ensemble/drawings",
    title="The ensemble, and cross-model reconstruction as geometry",
    where="Figures 1 and 5",
    claim="Decoding an entangled code with a disentangled member's decoder costs more than the "
    "other way round.",
    published=partial(
        claims, "mapping entangled to disentangled codes adds variance, the reverse does not"
    ),
)
