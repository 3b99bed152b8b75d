"""Figure 1 and Appendix B: what variational inference prefers, in models small enough to solve."""

from functools import partial

import pandas as pd

from unweave.recipes.frames import claims
from unweave.recipes.recipe import Recipe

__all__ = ["APPENDIX_B", "FIGURE_1"]

FREE_ENERGY = {
    ("0", "log-likelihood"): -17.82,
    ("0", "free energy"): -17.82,
    ("π/4", "log-likelihood"): -17.82,
    ("π/4", "free energy"): -57.16,
}
"""Of factor analysis whose weights are rotated, in nats."""

FIGURE_1 = Recipe(
    name="isa-vae/figure-1",
    title="Three sparse components in two dimensions, by variational inference",
    where="Figure 1",
    claim="Variational inference makes components more orthogonal, and β = 5 prunes one of them.",
    published=partial(
        claims,
        "at β = 1 there are three components, more orthogonal than the true ones",
        "at β = 5 one component is pruned",
        "at β = 5 the two others are orthogonal",
    ),
    waits_for="the small exact experiments (theory)",
)


def published_free_energy() -> pd.DataFrame:
    """Log-likelihood and free energy at two rotations of the weights."""
    return pd.DataFrame(
        [
            {"rotation": rotation, "quantity": quantity, "published": nats}
            for (rotation, quantity), nats in FREE_ENERGY.items()
        ]
    )


APPENDIX_B = Recipe(
    name="isa-vae/appendix-b",
    title="Free energy of rotated factor analysis",
    where="Appendix B.3, drawings without number",
    claim="The likelihood does not see a rotation of the weights; the free energy does, and "
    "prefers orthogonal weights.",
    published=published_free_energy,
    waits_for="the small exact experiments (theory)",
)
