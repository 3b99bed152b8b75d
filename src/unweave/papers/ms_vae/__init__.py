"""MS-VAE: a second stage adds what a disentangled first stage blurs."""

from unweave.papers.ms_vae.ablations import FIGURES_37_40
from unweave.papers.ms_vae.conditioning import FIGURE_5, FIGURE_6
from unweave.papers.ms_vae.flow import FIGURES_18_20
from unweave.papers.ms_vae.gan import FIGURES_21_31
from unweave.papers.ms_vae.pendulum import FIGURES_15_16
from unweave.papers.ms_vae.pictures import (
    DRAWINGS,
    FIGURES_1_AND_3,
    FIGURES_13_14,
    FIGURES_32_33,
)
from unweave.papers.ms_vae.quality import FIGURE_4, FIGURES_34_35, TABLE_1
from unweave.papers.ms_vae.separation import TABLES_2_3
from unweave.papers.ms_vae.sizes import FIGURE_7, FIGURE_8, FIGURES_9_12

__all__ = ["RECIPES"]

RECIPES = (
    TABLE_1,
    TABLES_2_3,
    FIGURES_1_AND_3,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    FIGURES_9_12,
    FIGURES_13_14,
    FIGURES_15_16,
    FIGURES_18_20,
    FIGURES_21_31,
    FIGURES_32_33,
    FIGURES_34_35,
    FIGURES_37_40,
    DRAWINGS,
)
