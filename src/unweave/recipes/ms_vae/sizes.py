"""Figures 7 to 12: how many dimensions C and Z should have."""

from functools import partial

from unweave.recipes.frames import claims
from unweave.recipes.recipe import Recipe

__all__ = ["FIGURES_9_12", "FIGURE_7", "FIGURE_8"]

FIGURE_7 = Recipe(
    name="ms-vae/figure-7",
    title="MIG and ELBO by the size of C (1 to 10, 20, 50) at β = 4",
    where="Figure 7",
    claim="Ten dimensions of C are a good choice.",
    published=partial(
        claims,
        "10 dimensions have a good combination of MIG and ELBO on Cars3D",
        "MIG varies much on SmallNORB, where 10 dimensions do reasonably well",
    ),
    waits_for="MS-VAE",
)
FIGURE_8 = Recipe(
    name="ms-vae/figure-8",
    title="MIG, FID and mutual information by the size of Z (5, 10, 50, 90) at β = 4",
    where="Figure 8",
    claim="Small Z do best.",
    published=partial(
        claims,
        "5 dimensions have a good combination of all three on Cars3D",
        "10 dimensions have a good combination of all three on SmallNORB",
    ),
    waits_for="MS-VAE and the FID",
)
FIGURES_9_12 = Recipe(
    name="ms-vae/figures-9-12",
    title="Traversals with small and with large C",
    where="Figures 9 to 12",
    claim="With a small C the second code takes over what is missing.",
    published=partial(
        claims,
        "C of 2 dimensions: Y is blurry and factors are entangled",
        "C of 2 dimensions: Z adds details such as colour",
        "C of 10 dimensions: Y is sharper and more disentangled, and Z refines it",
    ),
    waits_for="MS-VAE",
)
