"""Figures 37 to 40: what each choice in MS-VAE is good for."""

from functools import partial

from unweave.recipes.frames import claims
from unweave.recipes.recipe import Recipe

__all__ = ["FIGURES_37_40"]

FIGURES_37_40 = Recipe(
    name="ms-vae/figures-37-40",
    title="Traversals of MS-VAE and of five versions of it on Cars3D",
    where="Figures 37 to 40",
    claim="Two stages, Y in place of C, adaptive normalisation, and C before Z are all needed.",
    published=partial(
        claims,
        "M1, trained end to end: C is entangled with identity and colour",
        "M2, C and Z concatenated: disentanglement is lost",
        "M3, C with adaptive normalisation: disentangled, worse images than M4",
        "M4, the full model: disentangled, best images",
        "M5, Z before C: C holds nothing, Z holds all factors entangled",
    ),
    waits_for="MS-VAE",
)
