"""Figures 5 and 6: what the two codes know."""

from functools import partial

from unweave.recipes.frames import claims
from unweave.recipes.recipe import Recipe

__all__ = ["FIGURE_5", "FIGURE_6"]

FIGURE_5 = Recipe(
    name="ms-vae/figure-5",
    title="Mutual information M1 to M4 between codes of images and of reconstructions",
    where="Figure 5",
    claim="The second stage keeps to the disentangled code: M2 > M1 > M3 ≫ M4.",
    published=partial(
        claims,
        "M2 > M1 (codes of X against codes of Y)",
        "M1 > M3 (codes of Y against codes of X with random Z)",
        "M3 ≫ M4 (random Z against random Y)",
        "M3 follows M1 over β without dropping significantly",
    ),
    waits_for="MS-VAE",
)
FIGURE_6 = Recipe(
    name="ms-vae/figure-6",
    title="Five properties of SmallNORB predicted from C, Z and both",
    where="Figure 6",
    claim="The two codes complement each other.",
    published=partial(
        claims,
        "accuracy from C and Z together is the highest for all five properties",
        "as β grows the accuracy from C falls",
        "as β grows the accuracy from Z rises",
    ),
    waits_for="MS-VAE",
)
