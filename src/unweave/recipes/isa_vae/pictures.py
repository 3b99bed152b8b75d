"""Figures 2 to 4: the prior; Figures 8 to 16: what latents do."""

from functools import partial

from unweave.recipes.frames import claims, shown
from unweave.recipes.recipe import Recipe

__all__ = ["DRAWINGS", "FIGURES_8_16", "FIGURE_3"]

DRAWINGS = Recipe(
    name="isa-vae/drawings",
    title="Contours of an Lp-nested function, and its tree",
    where="Figures 2 and 4",
    claim="An Lp-nested function is a cascade of norms, which a tree describes.",
    published=partial(
        shown,
        "iso-contours of Equation 6 for p_0 and p_1 of 1, 2 and 9",
        "trees of Equation 6 and of an ISA model",
    ),
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
    claim="Reconstructions at the same MIG differ in quality, above all those of the heart.",
    published=partial(
        claims, "MIG after training is bimodal: a model disentangles well or it does not"
    ),
    waits_for="the ISA prior",
)
