"""Figures 2 to 4: the prior; Figures 8 to 16: what latents do."""

from functools import partial

from unweave.recipes.frames import claims
from unweave.recipes.recipe import Recipe

__all__ = ["FIGURES_2_4", "FIGURES_8_16", "FIGURE_3"]

FIGURES_2_4 = Recipe(
    name="isa-vae/figures-2-4",
    title="Drawings: contours of an Lp-nested function, and its tree",
    where="Figures 2 and 4",
    claim="Exponents p_0 and p_1 of 1, 2 and 9 give contours that are not round.",
    published=partial(claims, "contours are rotationally symmetric only where p_0 = p_1 = 2"),
)
FIGURE_3 = Recipe(
    name="isa-vae/figure-3",
    title="Which orientation of (x, y) a prior prefers",
    where="Figure 3",
    claim="A leptokurtic prior prefers the diagonals of a square of positions, a platykurtic one "
    "its axes.",
    published=partial(
        claims,
        "a leptokurtic prior fits better after a turn by 45°",
        "a platykurtic prior fits better along the axes",
    ),
    waits_for="the ISA prior",
)
FIGURES_8_16 = Recipe(
    name="isa-vae/figures-8-16",
    title="Latents against factors, and traversals, of representative models",
    where="Figures 8 to 16",
    claim="ISA models give disentangled latents at better reconstructions, above all of the heart.",
    published=partial(
        claims, "MIG after training is bimodal: a model disentangles well or it does not"
    ),
    waits_for="the ISA prior",
)
