"""Tables 1 and 2: hyperparameters."""

from functools import partial

from unweave.papers.frames import settings
from unweave.papers.recipe import Recipe

__all__ = ["TABLES_1_2"]

VALUES = {
    "dSprites: β": "1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6",
    "dSprites: γ (FactorVAE)": "1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
    "dSprites: epochs": 20,
    "dSprites: learning rate": 0.001,
    "dSprites: batch size": 2048,
    "dSprites: latent dimension": 20,
    "dSprites: loss function": "Bernoulli",
    "dSprites: optimizer": "Adam",
    "3D faces: β": "1, 1.5, 2, 2.5, 3, 4",
    "3D faces: epochs": 1500,
    "3D faces: learning rate": 0.001,
    "3D faces: batch size": 2048,
    "3D faces: latent dimension": 10,
    "3D faces: loss function": "Bernoulli",
    "3D faces: optimizer": "Adam",
}

TABLES_1_2 = Recipe(
    name="isa-vae/tables-1-2",
    title="Hyperparameters on dSprites and on 3D faces",
    where="Tables 1 and 2",
    claim="All methods were evaluated at all these strengths.",
    published=partial(settings, VALUES),
)
