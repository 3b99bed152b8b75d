"""Figures 18 to 20: a mixture of normals refined by a flow, on MNIST."""

import pandas as pd

from unweave.recipes.recipe import Recipe

__all__ = ["FIGURES_18_20"]

LOG_DENSITY = {"mixture of 10 normals": -1585.086, "with the conditional flow": -1356.089}


def published() -> pd.DataFrame:
    """Log density before and after the second stage."""
    return pd.DataFrame(LOG_DENSITY.items(), columns=["model", "published"])


FIGURES_18_20 = Recipe(
    name="ms-vae/figures-18-20",
    title="MS-FLOW on MNIST: means, samples, log density during training",
    where="Figures 18 to 20",
    claim="The flow improves the log density, and training with means converges faster than with "
    "samples.",
    published=published,
    waits_for="MS-FLOW",
)
