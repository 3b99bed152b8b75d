"""Figures 15 and 16: a hierarchy of three stages learns a pendulum."""

import pandas as pd

from unweave.recipes.recipe import Recipe

__all__ = ["FIGURES_15_16"]

TRAVERSAL = {0.1: -1.5, 1.5: 0.52, 2.0: 1.44}
"""Mass and the value of z that corresponds to it; which of its two ends is up is arbitrary."""


def published() -> pd.DataFrame:
    """What z is for three masses."""
    return pd.DataFrame(TRAVERSAL.items(), columns=["mass", "published"])


FIGURES_15_16 = Recipe(
    name="ms-vae/figures-15-16",
    title="Traversals of length, damping and z, and z against mass, of a pendulum",
    where="Figures 15 and 16",
    claim="The last latent, never told the mass, is heavily correlated with it.",
    published=published,
    waits_for="the deeper MS-VAE",
)
