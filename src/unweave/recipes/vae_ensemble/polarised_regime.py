"""Figures 3, 9 and 10: active and passive latents of the members of an ensemble."""

from functools import partial

import pandas as pd

from unweave.recipes.frames import claims
from unweave.recipes.recipe import Recipe

__all__ = ["FIGURES_9_10", "FIGURE_3"]

FIGURE_3 = Recipe(
    name="vae-ensemble/figure-3",
    title="Polarised regime of ensembles of two and three against β-VAE on dSprites",
    where="Figure 3",
    claim="Members of an ensemble have similar active and passive latents, more of them active "
    "than in β-VAE, and more in larger ensembles.",
    published=partial(
        claims,
        "members of one ensemble share the profile of log Δ over their ten latents",
        "an ensemble of two has more active latents than β-VAE with β = 4",
        "an ensemble of three has more active latents than one of two",
        "an ensemble of two has up to eight active latents on the five factors of dSprites",
    ),
    waits_for="the VAE ensemble",
)


def published_celeba() -> pd.DataFrame:
    """What is said of the panels with 10, 16 and 32 latents."""
    return claims(
        "members of one ensemble have a similar polarised regime",
        "higher γ separates passive from active latents",
        "an ensemble of three has more active latents than one of two",
    )


FIGURES_9_10 = Recipe(
    name="vae-ensemble/figures-9-10",
    title="Polarised regime of ensembles of two and three on CelebA, 10, 16 and 32 latents",
    where="Figures 9 and 10",
    claim="Higher γ separates passive from active latents, above all with enough latents.",
    published=published_celeba,
    waits_for="the VAE ensemble",
)
