"""The VAE ensemble: plain VAEs whose codes are mapped onto each other."""

from unweave.papers.vae_ensemble.ablations import FIGURE_4, FIGURE_8
from unweave.papers.vae_ensemble.alignment import FIGURE_2
from unweave.papers.vae_ensemble.beyond import BEYOND
from unweave.papers.vae_ensemble.curves import FIGURE_6, FIGURE_7
from unweave.papers.vae_ensemble.pictures import DRAWINGS, FIGURE_11, FIGURES_12_13
from unweave.papers.vae_ensemble.polarised_regime import FIGURE_3, FIGURES_9_10
from unweave.papers.vae_ensemble.scores import TABLE_1, TABLE_2
from unweave.papers.vae_ensemble.settings import TABLES_3_4

__all__ = ["RECIPES"]

RECIPES = (
    TABLE_1,
    TABLE_2,
    FIGURE_2,
    FIGURE_3,
    FIGURE_4,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    FIGURES_9_10,
    FIGURE_11,
    FIGURES_12_13,
    BEYOND,
    DRAWINGS,
    TABLES_3_4,
)
