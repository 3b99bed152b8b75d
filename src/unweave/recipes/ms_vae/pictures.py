"""Figures 1, 3, 13, 14, 32 and 33: reconstructions and traversals; 2 and 17: graphs."""

from functools import partial

from unweave.recipes.frames import claims, shown
from unweave.recipes.recipe import Recipe

__all__ = ["DRAWINGS", "FIGURES_1_AND_3", "FIGURES_13_14", "FIGURES_32_33"]

FIGURES_1_AND_3 = Recipe(
    name="ms-vae/figures-1-and-3",
    title="Reconstructions and traversals on Cars3D and SmallNORB",
    where="Figures 1 and 3",
    claim="The second stage sharpens images and keeps the meaning of every factor.",
    published=partial(
        claims,
        "MS-VAE reconstructs better than β-TCVAE and keeps the pose",
        "traversals of C mean the same in Y and in X",
        "perturbing Z keeps the pose",
    ),
    waits_for="MS-VAE",
)
FIGURES_13_14 = Recipe(
    name="ms-vae/figures-13-14",
    title="Traversals and reconstructions on CelebA",
    where="Figures 13 and 14",
    claim="MS-VAE on real images, which have no factors to score by.",
    published=partial(
        shown, "traversals of C: β-TCVAE in odd rows, MS-VAE in even rows", "reconstructions"
    ),
    waits_for="MS-VAE",
)
FIGURES_32_33 = Recipe(
    name="ms-vae/figures-32-33",
    title="Several draws of Y for one image of CelebA (β = 15, 15 dimensions of C)",
    where="Figures 32 and 33",
    claim="Y varies from draw to draw, X hardly.",
    published=partial(
        claims,
        "reconstructions of β-TCVAE vary much for the same image",
        "reconstructions of MS-VAE vary little",
    ),
    waits_for="MS-VAE",
)
DRAWINGS = Recipe(
    name="ms-vae/drawings",
    title="Graphical models of MS-VAE and of the pendulum",
    where="Figures 2 and 17",
    claim="Given Y, the codes C and Z are independent.",
    published=partial(claims, "C → Y → X ← Z: observing Y separates C from Z"),
)
