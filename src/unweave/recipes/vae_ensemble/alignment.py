"""Figures 2, 6 and 7: how far the maps between members are from signed permutations."""

from functools import partial

from unweave.recipes.frames import claims
from unweave.recipes.recipe import Recipe

__all__ = ["FIGURE_2", "FIGURE_6", "FIGURE_7"]

WAITS_FOR = "the VAE ensemble and the distance to orthogonality"

FIGURE_2 = Recipe(
    name="vae-ensemble/figure-2",
    title="Distance to orthogonality: ensembles against separately trained models",
    where="Figure 2",
    claim="Maps between the members of an ensemble are nearly signed permutations; those between "
    "separately trained models of any method are not.",
    published=partial(
        claims,
        "ensembles of every size (γ = 10, 2 to 5 members) have a smaller distance to "
        "orthogonality than separately trained VAEs",
        "and a smaller one than separately trained models of the other methods",
    ),
    waits_for=WAITS_FOR,
)
FIGURE_6 = Recipe(
    name="vae-ensemble/figure-6",
    title="Distance to orthogonality during training on dSprites",
    where="Figure 6",
    claim="Ensembles keep a low distance to orthogonality throughout training, plain VAEs do not.",
    published=partial(
        claims,
        "ensembles (γ = 10) of every size reach a small distance to orthogonality",
        "original VAEs trained apart do not",
    ),
    waits_for=WAITS_FOR,
)
FIGURE_7 = Recipe(
    name="vae-ensemble/figure-7",
    title="Distance to orthogonality during training on CelebA, by number of latents",
    where="Figure 7",
    claim="The distance to orthogonality falls with training and with the number of latents "
    "(10, 16, 32).",
    published=partial(
        claims,
        "the distance falls during training",
        "the distance falls as latents grow from 10 to 16 to 32",
        "the distance rises with the number of members",
        "γ does not affect the distance significantly",
    ),
    waits_for=WAITS_FOR,
)
