"""Table 1 of the supplement, and Figure 1, a drawing."""

from functools import partial

from unweave.papers.frames import claims, from_table
from unweave.papers.recipe import Recipe

__all__ = ["DRAWING", "TABLE_1"]

STRENGTHS = {
    "beta_vae (β)": "8 32",
    "beta_tc_vae (β)": "6 32",
    "factor_vae (γ)": "35 7",
    "slow_vae (β)": "1 1",
}

TABLE_1 = Recipe(
    name="inductive-biases/table-1",
    title="Strength of each method on dSprites and Shapes3D",
    where="Table 1",
    claim="All else follows disentanglement_lib or the literature.",
    published=partial(from_table, STRENGTHS, ("dsprites", "shapes3d"), ("method", "data")),
)
DRAWING = Recipe(
    name="inductive-biases/drawing",
    title="Two decoders of the same data that differ by a rotation",
    where="Figure 1",
    claim="VAEs, as PCA, align the directions of largest variance with the axes.",
    published=partial(
        claims, "the rotation U aligns the directions of largest variance with the axes"
    ),
)
