"""Figures 2 to 8: a closer look at Shapes3D."""

from functools import partial

from unweave.recipes.frames import claims, shown
from unweave.recipes.recipe import Recipe

__all__ = ["FIGURES_4_6", "FIGURES_7_8", "FIGURE_2", "FIGURE_3"]

FIGURE_2 = Recipe(
    name="inductive-biases/figure-2",
    title="Histogram of MIG of the variational methods on modified Shapes3D",
    where="Figure 2",
    claim="The distribution of MIG on modified images, method by method.",
    published=partial(shown, "a histogram of MIG for each variational method"),
    waits_for="the modified images and SlowVAE",
)
FIGURE_3 = Recipe(
    name="inductive-biases/figure-3",
    title="MIG of each factor, β-VAE on original and modified Shapes3D",
    where="Figure 3",
    claim="What the modification does to each factor.",
    published=partial(shown, "MIG of each factor on original and modified images"),
    waits_for="the modified images",
)
FIGURES_4_6 = Recipe(
    name="inductive-biases/figures-4-6",
    title="DCI, FactorVAE and SAP scores over scaled strengths, 10 restarts each, on Shapes3D",
    where="Figures 4 to 6",
    claim="A line search over strengths; runs with fewer active units than factors are left out.",
    published=partial(shown, "DCI by strength", "FactorVAE score by strength", "SAP by strength"),
    waits_for="the modified images, SlowVAE and PCL",
)
FIGURES_7_8 = Recipe(
    name="inductive-biases/figures-7-8",
    title="Two-dimensional traversals of four disentangled and four entangled β-VAEs",
    where="Figures 7 and 8",
    claim="Disentangled models encode hue alike; entangled ones all mix it with orientation in "
    "the same way.",
    published=partial(
        claims,
        "disentangled models encode wall hue and orientation separately, hue in the same way",
        "entangled models encode hue as the angle and orientation as the radius of two latents",
    ),
    waits_for="traversals along two latents at once",
)
