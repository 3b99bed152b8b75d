"""ISA-VAE: a prior of independent subspaces."""

from unweave.papers.isa_vae.biases import APPENDIX_B, APPENDIX_B4_B5
from unweave.papers.isa_vae.components import FIGURE_1
from unweave.papers.isa_vae.exponents import FIGURE_7
from unweave.papers.isa_vae.pictures import DRAWINGS, FIGURE_3, FIGURES_8_16
from unweave.papers.isa_vae.settings import TABLES_1_2
from unweave.papers.isa_vae.trade_off import FIGURE_5A, FIGURE_5B, FIGURE_5C, FIGURE_6

__all__ = ["RECIPES"]

RECIPES = (
    FIGURE_1,
    FIGURE_3,
    FIGURE_5A,
    FIGURE_5B,
    FIGURE_5C,
    FIGURE_6,
    FIGURE_7,
    FIGURES_8_16,
    APPENDIX_B,
    APPENDIX_B4_B5,
    DRAWINGS,
    TABLES_1_2,
)
