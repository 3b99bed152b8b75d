"""Inductive biases of VAEs: the supplement, and the main table of the paper."""

from unweave.papers.inductive_biases.scores import MAIN_TABLE_1, TABLE_2, TABLE_3, TABLE_4
from unweave.papers.inductive_biases.settings import DRAWING, TABLE_1
from unweave.papers.inductive_biases.shapes3d import (
    FIGURE_2,
    FIGURE_3,
    FIGURES_4_6,
    FIGURES_7_8,
)

__all__ = ["RECIPES"]

RECIPES = (
    MAIN_TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    FIGURE_2,
    FIGURE_3,
    FIGURES_4_6,
    FIGURES_7_8,
    DRAWING,
    TABLE_1,
)
