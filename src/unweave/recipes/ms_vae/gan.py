"""Figures 21 to 31: the adversarial version."""

from functools import partial

from unweave.recipes.frames import claims
from unweave.recipes.recipe import Recipe

__all__ = ["FIGURES_21_31"]

FIGURES_21_31 = Recipe(
    name="ms-vae/figures-21-31",
    title="Traversals of MS-GAN, CGAN and InfoGAN on cars, chairs, faces and CelebA",
    where="Figures 21 to 31",
    claim="MS-GAN varies pose without changing identity; CGAN and InfoGAN do not.",
    published=partial(
        claims,
        "MS-GAN varies the control variates without changing the identity, CGAN changes it",
        "in CGAN the noise has little or no control over the identity of chairs",
        "without supervision MS-GAN finds rotation, azimuth and distance of faces",
        "InfoGAN's factors are highly entangled",
    ),
    waits_for="MS-GAN and the renderings of cars, chairs and faces",
)
