"""Figures 4 and 8: ensembles without cross-model reconstruction, or without linear maps."""

from functools import partial

from unweave.recipes.frames import claims
from unweave.recipes.recipe import Recipe

__all__ = ["FIGURE_4", "FIGURE_8"]

FIGURE_4 = Recipe(
    name="vae-ensemble/figure-4",
    title="Ablation by the FactorVAE metric",
    where="Figure 4",
    claim="Both the cross-model reconstruction and the linear maps are needed.",
    published=partial(
        claims,
        "without cross-model reconstruction the FactorVAE metric is lower",
        "without the loss of the linear maps the FactorVAE metric is lower",
        "without the loss of the linear maps it is much lower at every ensemble size",
        "the gap without cross-model reconstruction gets smaller as γ grows",
    ),
    waits_for="the VAE ensemble",
)
FIGURE_8 = Recipe(
    name="vae-ensemble/figure-8",
    title="Ablation by DCI and by distance to orthogonality",
    where="Figure 8",
    claim="The ablation by DCI agrees with that by the FactorVAE metric, and cross-model "
    "reconstruction lowers the distance to orthogonality.",
    published=partial(
        claims,
        "without cross-model reconstruction DCI is lower",
        "without the loss of the linear maps DCI is much lower at every ensemble size",
        "without cross-model reconstruction the distance to orthogonality is small",
        "cross-model reconstruction lowers it further",
    ),
    waits_for="the VAE ensemble and the distance to orthogonality",
)
